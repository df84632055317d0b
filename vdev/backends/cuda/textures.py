"""Images in one GPU's memory as its units for textures read them.

Decides for which images and samplers there is a texture, and when it goes: with the memory that it shows, which is given back to the
driver when nothing is under way. Until then whatever lies there in the same form has the same texture. If there are many, those of
memory that is free go, for which the work that may use them is waited for. A launch for which one is missing reads its images in software.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from vdev.backends.base import KernelArgument
from vdev.backends.cuda.driver import Driver
from vdev.backends.cuda.launch import CudaAllocation
from vdev.backends.cuda.pool import Pool
from vdev.translators.dialects.image_arguments import SAMPLER_BITS, unpack_descriptor, with_texture
from vdev.translators.frontend.kernels import SampledImage

logger = logging.getLogger("vdev.cuda")

#: CUarray_format by CL_ channel type: what is stored is read as NVIDIA's own OpenCL reads it, to the last bit
_FORMATS = {0x10D0: 0x08, 0x10D1: 0x09, 0x10D2: 0x01, 0x10D3: 0x02, 0x10DD: 0x10, 0x10DE: 0x20}
#: channels of a pixel by CL_ channel order: R, A, RG, RGBA, BGRA, INTENSITY, LUMINANCE
_CHANNELS = {0x10B0: 1, 0x10B1: 1, 0x10B2: 2, 0x10B5: 4, 0x10B6: 4, 0x10B8: 1, 0x10B9: 1}
_RGBA, _FLOAT = 0x10B5, 0x10DE
#: of a sampler's bits: normalised coordinates, the addressing mode, and filtering between pixels
_NORMALIZED, _MODE, _LINEAR = 0x01, 0x0E, 0x20
_MIRRORED = 8
#: CUaddress_mode by the bits of the addressing mode: NONE, CLAMP_TO_EDGE, CLAMP, REPEAT, MIRRORED_REPEAT
_ADDRESSING = {0: 1, 2: 1, 4: 3, 6: 0, _MIRRORED: 2}
_REPEATS = (6, _MIRRORED)  #: of these, the ones that are only for normalised coordinates
#: CUdevice_attribute: what addresses and rows have to be multiples of; the most pixels of a row, rows, and bytes of a row
_ALIGNMENT, _ROW_ALIGNMENT, _MOST_WIDTH, _MOST_HEIGHT, _MOST_ROW = 14, 51, 70, 71, 72
#: images and samplers that are known at a time, and so many more are asked for before room is made again
_MOST, _ASKED = 4096, 1024
_UINT = struct.Struct("<I")

#: where an image begins, its descriptor, and its sampler's bits
_Key = tuple[int, bytes, int]
#: how many bytes the image has, and the descriptor with its texture; None for images that have none
_Made = tuple[int, bytes] | None


class Textures:
    """The textures of one GPU's memory."""

    def __init__(
        self,
        driver: Driver,
        number: int,
        pool: Pool,
        inside: Callable[[Callable[[], int]], int],
        wait: Callable[[], object],
    ) -> None:
        """`pool`: of the memory that images lie in. `inside` makes a call in the GPU's own context. `wait` returns when no launch is under
        way.
        """
        self._driver, self._number = driver, number
        self._pool, self._inside, self._wait = pool, inside, wait
        self._made: dict[_Key, _Made] = {}
        #: by where the driver's allocation begins: what has been made in it
        self._within: dict[int, list[tuple[_Key, int]]] = {}
        self._asked = 0  #: how often there was no room

    def given(
        self, images: Sequence[SampledImage], args: Sequence[KernelArgument]
    ) -> list[KernelArgument] | None:
        """The arguments with a texture in the descriptor of each image; None where one has none."""
        found: list[KernelArgument] = [*args]
        for image in images:
            sampler = image.bits
            if image.sampler is not None:
                value = args[image.sampler]
                if type(value) is not bytes:
                    return None
                (sampler,) = _UINT.unpack(value)
            descriptor = self._descriptor(args[image.pixels], args[image.descriptor], sampler)
            if descriptor is None:
                return None
            found[image.descriptor] = descriptor
        return found

    def forget(self, segment: int) -> None:
        """What begins there is about to be given back to the driver, and nothing is under way."""
        self._destroy(self._within.pop(segment, ()))

    def _destroy(self, made: Iterable[tuple[_Key, int]]) -> None:
        for key, texture in made:
            del self._made[key]
            if texture and (result := self._driver.destroy_texture(texture)):
                logger.debug("%s", self._driver.error(result, "the driver did not destroy a texture"))

    def _has_room(self) -> bool:
        """Whether there may be another one."""
        if len(self._made) >= _MOST:
            if self._asked % _ASKED == 0:
                self._inside(self._make_room)
            self._asked += 1
        return len(self._made) < _MOST

    def _make_room(self) -> int:
        """Destroy those of memory that is free: nobody launches with it again. How many there were."""
        self._wait()
        is_free, before = self._pool.free_now(), len(self._made)
        for segment, made in self._within.items():
            gone = [each for each in made if is_free(each[0][0])]
            self._within[segment] = [each for each in made if not is_free(each[0][0])]
            self._destroy(gone)
        self._asked = 0 if len(self._made) < _MOST else self._asked
        return before - len(self._made)

    def _descriptor(self, pixels: KernelArgument, descriptor: KernelArgument, sampler: int) -> bytes | None:
        memory, ahead = pixels if type(pixels) is tuple else (pixels, 0)
        if type(memory) is not CudaAllocation or type(descriptor) is not bytes or ahead < 0:
            return None
        key = memory.address + ahead, descriptor, sampler
        if key in self._made:
            made = self._made[key]
        elif self._has_room():
            made = self._make(key)
        else:
            return None
        # Part of an image may lie where a whole one has been.
        return made[1] if made is not None and ahead + made[0] <= memory.nbytes else None

    def _make(self, key: _Key) -> _Made:
        address, descriptor, _ = key
        segment = self._pool.segment_of(address)
        if segment is None:
            return None
        texture = self._inside(lambda: self._texture(key))
        made = None
        if texture:
            width, height, row_pitch, _, _, element_nbytes = unpack_descriptor(descriptor)
            nbytes = (height - 1) * row_pitch + width * element_nbytes
            made = nbytes, with_texture(descriptor, texture)
        self._made[key] = made
        self._within.setdefault(segment, []).append((key, texture))
        return made

    def _texture(self, key: _Key) -> int:
        """A new texture; 0 where there is to be none."""
        address, descriptor, sampler = key
        width, height, row_pitch, order, data_type, _ = unpack_descriptor(descriptor)
        form, mode = (_FORMATS.get(data_type, 0), _CHANNELS.get(order, 0)), sampler & _MODE
        linear, normalized = bool(sampler & _LINEAR), bool(sampler & _NORMALIZED)
        if 0 in form or mode not in _ADDRESSING or sampler & ~SAMPLER_BITS:
            return 0
        if mode in _REPEATS and not normalized:
            return 0
        # Such pixels are more quickly loaded. Where images repeat mirrored, NVIDIA's units take other pixels than the specification says
        # for some coordinates between two.
        if (order, data_type) == (_RGBA, _FLOAT) and not linear and mode != _MIRRORED:
            return 0
        if not self._takes(address, width, height, row_pitch):
            return 0
        size = width, height, row_pitch
        result, texture = self._driver.new_texture(
            address, size, form, _ADDRESSING[mode], linear=linear, normalized=normalized
        )
        if result:
            logger.debug("%s", self._driver.error(result, f"no texture of {width} x {height} pixels"))
            return 0
        return texture

    def _takes(self, address: int, width: int, height: int, row_pitch: int) -> bool:
        """Whether the GPU makes textures of memory that lies so."""
        alignment, row_alignment, *most = self._limits
        if not alignment or not row_alignment or address % alignment or row_pitch % row_alignment:
            return False
        return all(size <= limit for size, limit in zip((width, height, row_pitch), most, strict=True))

    @cached_property
    def _limits(self) -> list[int]:
        asked = (_ALIGNMENT, _ROW_ALIGNMENT, _MOST_WIDTH, _MOST_HEIGHT, _MOST_ROW)
        return [self._driver.attribute(attribute, self._number) for attribute in asked]
