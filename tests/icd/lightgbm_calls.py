"""LightGBM learns with its OpenCL kernels, which are Boost.Compute's."""

import lightgbm
import numpy as np

rng = np.random.default_rng(0)
inputs = rng.random((3000, 8))
wanted = (inputs[:, 0] + inputs[:, 1] * inputs[:, 2] > 0.7).astype(int)
options = {
    "objective": "binary",
    "device_type": "gpu",
    "gpu_use_dp": True,
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
    "max_bin": 63,
}
model = lightgbm.train(options, lightgbm.Dataset(inputs, wanted), 3)
print(np.round(model.predict(inputs), 6).tolist())
