"""What launches pass to kernels in the place of images and samplers; `image_lowering` writes the kernels' side."""

from __future__ import annotations

import struct

__all__ = ["SAMPLER_BITS", "pack_descriptor", "pack_sampler", "unpack_descriptor", "with_texture"]

#: `struct P_desc` of `image_lowering`
_DESCRIPTOR_FORMAT = struct.Struct("<3iIq2I")


def pack_descriptor(
    shape: tuple[int, int, int],
    row_pitch: int,
    slice_pitch: int,
    order: int,
    data_type: int,
    channels: int,
    element_nbytes: int,
) -> bytes:
    """The bytes of an image's descriptor.

    `shape`: width, height, depth in pixels, 1 for each that the image lacks, with the layers of an array as depth.
    Pitches are in bytes. `order`, `data_type`: CL_ constants; `channels`: how many a pixel stores.
    """
    form = (order - 0x10B0) | (data_type - 0x10D0) << 8 | channels << 16
    return _DESCRIPTOR_FORMAT.pack(*shape, row_pitch, slice_pitch, element_nbytes, form)


def unpack_descriptor(descriptor: bytes) -> tuple[int, int, int, int, int, int]:
    """Of a two-dimensional image's descriptor: width, height, row pitch, CL_ channel order and type, bytes of an element.

    >>> unpack_descriptor(pack_descriptor((13, 9, 1), 64, 576, 0x10B5, 0x10D2, 4, 4)) == (13, 9, 64, 0x10B5, 0x10D2, 4)
    True
    """
    width, height, _, row_pitch, _, element_nbytes, form = _DESCRIPTOR_FORMAT.unpack(descriptor)
    return width, height, row_pitch, 0x10B0 + (form & 255), 0x10D0 + (form >> 8 & 255), element_nbytes


def with_texture(descriptor: bytes, texture: int) -> bytes:
    """The same descriptor of an image of two dimensions with a texture, where others have the bytes of a slice, which such an image lacks.

    >>> plain = pack_descriptor((13, 9, 1), 64, 576, 0x10B5, 0x10D2, 4, 4)
    >>> unpack_descriptor(with_texture(plain, 5)) == unpack_descriptor(plain)
    True
    """
    width, height, depth, row_pitch, _, element_nbytes, form = _DESCRIPTOR_FORMAT.unpack(descriptor)
    return _DESCRIPTOR_FORMAT.pack(width, height, depth, row_pitch, texture, element_nbytes, form)


#: all that a sampler may have
SAMPLER_BITS = 0x3F
#: CL_ADDRESS_* to the bits of OpenCL C's constants
_ADDRESSING = {0x1130: 0, 0x1131: 2, 0x1132: 4, 0x1133: 6, 0x1134: 8}


def pack_sampler(*, normalized: bool, addressing: int, linear: bool) -> bytes:
    """The bytes of a sampler argument. `addressing`: a CL_ADDRESS_ constant."""
    return struct.pack("<I", normalized | _ADDRESSING[addressing] | (0x20 if linear else 0x10))
