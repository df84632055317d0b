"""OpenCV's kernels on random pixels. It opens its loader late, and has some kernels for single vendors, which are left out."""

import hashlib
import os
import sys

os.environ["OPENCV_OPENCL_DEVICE"] = ":CPU:"  # by itself it takes GPUs only

import cv2
import numpy as np

cv2.ocl.setUseOpenCL(True)
if not cv2.ocl.useOpenCL():
    sys.exit("OpenCV uses no OpenCL")
rng = np.random.default_rng(1)
colours = cv2.UMat(rng.integers(0, 255, (240, 320, 3), np.uint8))
grey = cv2.cvtColor(colours, cv2.COLOR_BGR2GRAY)
numbers = cv2.UMat(rng.random((64, 64)).astype(np.float32))
turn = np.array([[1, 0.1, 3], [-0.1, 1, 4]], np.float32)
results = {
    "blur": cv2.blur(colours, (5, 5)),
    "grey": grey,
    "sobel": cv2.Sobel(grey, cv2.CV_16S, 1, 0),
    "resize": cv2.resize(colours, (160, 100), interpolation=cv2.INTER_LINEAR),
    "threshold": cv2.threshold(grey, 100, 255, cv2.THRESH_BINARY)[1],
    "erode": cv2.erode(colours, np.ones((3, 3), np.uint8)),
    "warp": cv2.warpAffine(colours, turn, (320, 240), flags=cv2.INTER_NEAREST),
    "canny": cv2.Canny(grey, 50, 150),
    "median": cv2.medianBlur(colours, 5),
    "histogram": cv2.calcHist([grey], [0], None, [256], [0, 256]),
    "add": cv2.add(numbers, numbers),
}
for name, result in results.items():
    array = np.ascontiguousarray(result.get() if isinstance(result, cv2.UMat) else result)
    print(name, array.shape, hashlib.sha1(array.tobytes()).hexdigest()[:12])
print(cv2.minMaxLoc(grey), cv2.countNonZero(grey))
