// Images read by the GPU's units for textures.
namespace vdev_cl {
inline vec<float, 4> __vdev_texel(ulong texture, vec<float, 2> place) {
  float found[4];
  texel(texture, place.v[0], place.v[1], found);
  return make<vec<float, 4>>(found[0], found[1], found[2], found[3]);
}
}  // namespace vdev_cl
