"""Prefix sums, a radix sort and compaction through `pyopencl.scan` and `pyopencl.algorithm`.

Source: G. E. Blelloch, "Prefix Sums and Their Applications" (1990); N. Satish, M. Harris and M. Garland, "Designing
Efficient Sorting Algorithms for Manycore GPUs" (IPDPS 2009).
"""

import common
import numpy as np
import pyopencl.array as cl_array
from pyopencl.algorithm import RadixSort, copy_if
from pyopencl.scan import InclusiveScanKernel

KEY_BITS = 16


def main() -> None:
    args = common.parser(__doc__, size=1 << 16, meaning="numbers").parse_args()
    n = args.size
    values = (common.random(111, n) * (1 << KEY_BITS)).astype(np.uint32)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} numbers of {KEY_BITS} bits")
    scan = InclusiveScanKernel(context, np.uint32, "a + b", neutral="0")
    sort = RadixSort(context, "unsigned int *keys", "keys[i]", ["keys"], key_dtype=np.uint32)

    def upload() -> list[cl_array.Array]:
        return [cl_array.to_device(queue, values)]

    def launch(arrays: list[cl_array.Array]) -> None:
        given = arrays[0]
        sums = cl_array.empty_like(given)
        scan(given, sums, queue=queue)
        (ordered,), _ = sort(given, key_bits=KEY_BITS, queue=queue)
        odd, count, _ = copy_if(given, "ary[i] % 2 == 1", queue=queue)
        arrays[1:] = sums, ordered, odd[: int(count.get())]

    def download(arrays: list[cl_array.Array]) -> list[common.Array]:
        return [array.get() for array in arrays[1:]]

    job = common.Job(queue, upload, launch, download)
    sums, ordered, odd = common.run(job, "scan, sort and compaction", count=1e-6 * n, unit="million numbers")
    common.check("prefix sums", sums, np.cumsum(values, dtype=np.uint32))
    common.check("numbers in order", ordered, np.sort(values))
    common.check("odd numbers", odd, values[values % 2 == 1])


if __name__ == "__main__":
    main()
