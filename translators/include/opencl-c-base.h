// What an OpenCL C program finds declared before its first line and clang does not build in: types, constants, enumerations.
// Functions come from clang's own table (-fdeclare-opencl-builtins); that table looks some of these types up by name.
// Constants are object-like macros and reinterpretations are functions, so that no use in a program is a macro with arguments:
// cursors then keep exact positions.
#ifndef VDEV_OPENCL_C_BASE_H
#define VDEV_OPENCL_C_BASE_H

// clang's table of functions asks for these names. Which of them a device has was settled when the text was preprocessed.
#if __OPENCL_C_VERSION__ >= 200
#define __opencl_c_pipes 1
#define __opencl_c_generic_address_space 1
#define __opencl_c_work_group_collective_functions 1
#define __opencl_c_atomic_order_acq_rel 1
#define __opencl_c_atomic_order_seq_cst 1
#define __opencl_c_atomic_scope_device 1
#define __opencl_c_atomic_scope_all_devices 1
#define __opencl_c_device_enqueue 1
#define __opencl_c_read_write_images 1
#define __opencl_c_program_scope_global_variables 1
#define __opencl_c_images 1
#define __opencl_c_int64 1
#define __opencl_c_fp64 1
#define __opencl_c_3d_image_writes 1
#define __opencl_c_subgroups 1
#endif
#define __opencl_c_integer_dot_product_input_4x8bit 1
#define __opencl_c_integer_dot_product_input_4x8bit_packed 1
#ifdef cl_ext_float_atomics
#define __opencl_c_ext_fp32_global_atomic_add 1
#define __opencl_c_ext_fp32_local_atomic_add 1
#define __opencl_c_ext_fp32_global_atomic_min_max 1
#define __opencl_c_ext_fp32_local_atomic_min_max 1
#define __opencl_c_ext_fp64_global_atomic_add 1
#define __opencl_c_ext_fp64_local_atomic_add 1
#define __opencl_c_ext_fp64_global_atomic_min_max 1
#define __opencl_c_ext_fp64_local_atomic_min_max 1
#endif
#ifndef __opencl_c_generic_address_space
#define __opencl_c_named_address_space_builtins 1
#endif
#define __opencl_subgroup_builtins 1

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define VDEV_VECTORS(type) \
  typedef type type##2 __attribute__((ext_vector_type(2))); \
  typedef type type##3 __attribute__((ext_vector_type(3))); \
  typedef type type##4 __attribute__((ext_vector_type(4))); \
  typedef type type##8 __attribute__((ext_vector_type(8))); \
  typedef type type##16 __attribute__((ext_vector_type(16)));
// Left enabled, as engines that have them do.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
VDEV_VECTORS(char)
VDEV_VECTORS(uchar)
VDEV_VECTORS(short)
VDEV_VECTORS(ushort)
VDEV_VECTORS(int)
VDEV_VECTORS(uint)
VDEV_VECTORS(long)
VDEV_VECTORS(ulong)
VDEV_VECTORS(half)
VDEV_VECTORS(float)
VDEV_VECTORS(double)
#undef VDEV_VECTORS

typedef uint cl_mem_fence_flags;
typedef uint cl_mem_fence_flags_t;
#define CLK_LOCAL_MEM_FENCE 0x01
#define CLK_GLOBAL_MEM_FENCE 0x02
#define CLK_IMAGE_MEM_FENCE 0x04

typedef enum memory_scope {
  memory_scope_work_item = 0,
  memory_scope_work_group = 1,
  memory_scope_device = 2,
  memory_scope_all_svm_devices = 3,
  memory_scope_all_devices = 3,
  memory_scope_sub_group = 4
} memory_scope;

typedef enum memory_order {
  memory_order_relaxed = 0,
  memory_order_acquire = 2,
  memory_order_release = 3,
  memory_order_acq_rel = 4,
  memory_order_seq_cst = 5
} memory_order;

typedef enum clk_profiling_info { CLK_PROFILING_COMMAND_EXEC_TIME_VALUE = 1 } clk_profiling_info;
typedef int kernel_enqueue_flags_t;
typedef int clk_enqueue_flags_t;
#define CLK_ENQUEUE_FLAGS_NO_WAIT 0x0
#define CLK_ENQUEUE_FLAGS_WAIT_KERNEL 0x1
#define CLK_ENQUEUE_FLAGS_WAIT_WORK_GROUP 0x2
#define CLK_SUCCESS 0
#define CLK_ENQUEUE_FAILURE -101
#define CLK_INVALID_QUEUE -102
#define CLK_INVALID_NDRANGE -160
#define CLK_INVALID_EVENT_WAIT_LIST -57
#define CLK_DEVICE_QUEUE_FULL -161
#define CLK_INVALID_ARG_SIZE -51
#define CLK_EVENT_ALLOCATION_FAILURE -100
#define CLK_OUT_OF_RESOURCES -5
#define CLK_NULL_QUEUE 0
#if __OPENCL_C_VERSION__ >= 200
typedef struct { unsigned int workDimension; size_t globalWorkOffset[3], globalWorkSize[3], localWorkSize[3]; } ndrange_t;
#define CLK_NULL_EVENT (__builtin_astype(((void *)(__SIZE_MAX__)), clk_event_t))
#define CLK_NULL_RESERVE_ID (__builtin_astype(((void *)(__SIZE_MAX__)), reserve_id_t))
#endif

#define CLK_ADDRESS_NONE 0
#define CLK_ADDRESS_CLAMP_TO_EDGE 2
#define CLK_ADDRESS_CLAMP 4
#define CLK_ADDRESS_REPEAT 6
#define CLK_ADDRESS_MIRRORED_REPEAT 8
#define CLK_NORMALIZED_COORDS_FALSE 0
#define CLK_NORMALIZED_COORDS_TRUE 1
#define CLK_FILTER_NEAREST 0x10
#define CLK_FILTER_LINEAR 0x20

#define CLK_SNORM_INT8 0x10D0
#define CLK_SNORM_INT16 0x10D1
#define CLK_UNORM_INT8 0x10D2
#define CLK_UNORM_INT16 0x10D3
#define CLK_UNORM_SHORT_565 0x10D4
#define CLK_UNORM_SHORT_555 0x10D5
#define CLK_UNORM_INT_101010 0x10D6
#define CLK_SIGNED_INT8 0x10D7
#define CLK_SIGNED_INT16 0x10D8
#define CLK_SIGNED_INT32 0x10D9
#define CLK_UNSIGNED_INT8 0x10DA
#define CLK_UNSIGNED_INT16 0x10DB
#define CLK_UNSIGNED_INT32 0x10DC
#define CLK_HALF_FLOAT 0x10DD
#define CLK_FLOAT 0x10DE
#define CLK_UNORM_INT24 0x10DF
#define CLK_UNORM_INT_101010_2 0x10E0
#define CLK_R 0x10B0
#define CLK_A 0x10B1
#define CLK_RG 0x10B2
#define CLK_RA 0x10B3
#define CLK_RGB 0x10B4
#define CLK_RGBA 0x10B5
#define CLK_BGRA 0x10B6
#define CLK_ARGB 0x10B7
#define CLK_INTENSITY 0x10B8
#define CLK_LUMINANCE 0x10B9
#define CLK_Rx 0x10BA
#define CLK_RGx 0x10BB
#define CLK_RGBx 0x10BC
#define CLK_DEPTH 0x10BD
#define CLK_DEPTH_STENCIL 0x10BE
#define CLK_sRGB 0x10BF
#define CLK_sRGBx 0x10C0
#define CLK_sRGBA 0x10C1
#define CLK_sBGRA 0x10C2
#define CLK_ABGR 0x10C3

#define NULL ((void *)0)
#define HUGE_VALF (__builtin_huge_valf())
#define HUGE_VAL (__builtin_huge_val())
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define MAXFLOAT 0x1.fffffep127f

#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP +38
#define FLT_MAX_EXP +128
#define FLT_MIN_10_EXP -37
#define FLT_MIN_EXP -125
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN 2147483647
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_MAX_10_EXP +308
#define DBL_MAX_EXP +1024
#define DBL_MIN_10_EXP -307
#define DBL_MIN_EXP -1021
#define DBL_RADIX 2
#define DBL_MAX 0x1.fffffffffffffp1023
#define DBL_MIN 0x1.0p-1022
#define DBL_EPSILON 0x1.0p-52
#define HALF_DIG 3
#define HALF_MANT_DIG 11
#define HALF_MAX_10_EXP +4
#define HALF_MAX_EXP +16
#define HALF_MIN_10_EXP -4
#define HALF_MIN_EXP -13
#define HALF_RADIX 2
#define HALF_MAX ((half)0x1.ffcp15h)
#define HALF_MIN ((half)0x1.0p-14h)
#define HALF_EPSILON ((half)0x1.0p-10h)

#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define USHRT_MAX 65535
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define UINT_MAX 0xffffffffU
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-0x7fffffffffffffffL - 1)

#define M_E 2.71828182845904523536028747135266250
#define M_LOG2E 1.44269504088896340735992468100189214
#define M_LOG10E 0.434294481903251827651128918916605082
#define M_LN2 0.693147180559945309417232121458176568
#define M_LN10 2.30258509299404568401799145468436421
#define M_PI 3.14159265358979323846264338327950288
#define M_PI_2 1.57079632679489661923132169163975144
#define M_PI_4 0.785398163397448309615660845819875721
#define M_1_PI 0.318309886183790671537767526745028724
#define M_2_PI 0.636619772367581343075535053490057448
#define M_2_SQRTPI 1.12837916709551257389615890312154517
#define M_SQRT2 1.41421356237309504880168872420969808
#define M_SQRT1_2 0.707106781186547524400844362104849039
#define M_E_F 2.71828182845904523536028747135266250f
#define M_LOG2E_F 1.44269504088896340735992468100189214f
#define M_LOG10E_F 0.434294481903251827651128918916605082f
#define M_LN2_F 0.693147180559945309417232121458176568f
#define M_LN10_F 2.30258509299404568401799145468436421f
#define M_PI_F 3.14159265358979323846264338327950288f
#define M_PI_2_F 1.57079632679489661923132169163975144f
#define M_PI_4_F 0.785398163397448309615660845819875721f
#define M_1_PI_F 0.318309886183790671537767526745028724f
#define M_2_PI_F 0.636619772367581343075535053490057448f
#define M_2_SQRTPI_F 1.12837916709551257389615890312154517f
#define M_SQRT2_F 1.41421356237309504880168872420969808f
#define M_SQRT1_2_F 0.707106781186547524400844362104849039f
#define M_E_H ((half)2.71828182845904523536028747135266250h)
#define M_LOG2E_H ((half)1.44269504088896340735992468100189214h)
#define M_LOG10E_H ((half)0.434294481903251827651128918916605082h)
#define M_LN2_H ((half)0.693147180559945309417232121458176568h)
#define M_LN10_H ((half)2.30258509299404568401799145468436421h)
#define M_PI_H ((half)3.14159265358979323846264338327950288h)
#define M_PI_2_H ((half)1.57079632679489661923132169163975144h)
#define M_PI_4_H ((half)0.785398163397448309615660845819875721h)
#define M_1_PI_H ((half)0.318309886183790671537767526745028724h)
#define M_2_PI_H ((half)0.636619772367581343075535053490057448h)
#define M_2_SQRTPI_H ((half)1.12837916709551257389615890312154517h)
#define M_SQRT2_H ((half)1.41421356237309504880168872420969808h)
#define M_SQRT1_2_H ((half)0.707106781186547524400844362104849039h)

// Text for GPUs has this function: what a texture gives at a place, channel by channel as its pixels have them.
float4 __attribute__((const)) __vdev_texel(ulong texture, float2 place);

#if __OPENCL_C_VERSION__ >= 120
int printf(__constant const char *restrict format, ...) __attribute__((format(printf, 1, 2)));
#endif

// as_type() (specification 6.4.4.2). In text to be rewritten: a function for every pair of types of one size, for the sizes that
// the text needs. In the user's own text, which is parsed for clang's messages: the reinterpretation itself.
#ifdef VDEV_AS_MACRO
#define as_char(x) __builtin_astype((x), char)
#define as_char2(x) __builtin_astype((x), char2)
#define as_char3(x) __builtin_astype((x), char3)
#define as_char4(x) __builtin_astype((x), char4)
#define as_char8(x) __builtin_astype((x), char8)
#define as_char16(x) __builtin_astype((x), char16)
#define as_uchar(x) __builtin_astype((x), uchar)
#define as_uchar2(x) __builtin_astype((x), uchar2)
#define as_uchar3(x) __builtin_astype((x), uchar3)
#define as_uchar4(x) __builtin_astype((x), uchar4)
#define as_uchar8(x) __builtin_astype((x), uchar8)
#define as_uchar16(x) __builtin_astype((x), uchar16)
#define as_short(x) __builtin_astype((x), short)
#define as_short2(x) __builtin_astype((x), short2)
#define as_short3(x) __builtin_astype((x), short3)
#define as_short4(x) __builtin_astype((x), short4)
#define as_short8(x) __builtin_astype((x), short8)
#define as_short16(x) __builtin_astype((x), short16)
#define as_ushort(x) __builtin_astype((x), ushort)
#define as_ushort2(x) __builtin_astype((x), ushort2)
#define as_ushort3(x) __builtin_astype((x), ushort3)
#define as_ushort4(x) __builtin_astype((x), ushort4)
#define as_ushort8(x) __builtin_astype((x), ushort8)
#define as_ushort16(x) __builtin_astype((x), ushort16)
#define as_int(x) __builtin_astype((x), int)
#define as_int2(x) __builtin_astype((x), int2)
#define as_int3(x) __builtin_astype((x), int3)
#define as_int4(x) __builtin_astype((x), int4)
#define as_int8(x) __builtin_astype((x), int8)
#define as_int16(x) __builtin_astype((x), int16)
#define as_uint(x) __builtin_astype((x), uint)
#define as_uint2(x) __builtin_astype((x), uint2)
#define as_uint3(x) __builtin_astype((x), uint3)
#define as_uint4(x) __builtin_astype((x), uint4)
#define as_uint8(x) __builtin_astype((x), uint8)
#define as_uint16(x) __builtin_astype((x), uint16)
#define as_long(x) __builtin_astype((x), long)
#define as_long2(x) __builtin_astype((x), long2)
#define as_long3(x) __builtin_astype((x), long3)
#define as_long4(x) __builtin_astype((x), long4)
#define as_long8(x) __builtin_astype((x), long8)
#define as_long16(x) __builtin_astype((x), long16)
#define as_ulong(x) __builtin_astype((x), ulong)
#define as_ulong2(x) __builtin_astype((x), ulong2)
#define as_ulong3(x) __builtin_astype((x), ulong3)
#define as_ulong4(x) __builtin_astype((x), ulong4)
#define as_ulong8(x) __builtin_astype((x), ulong8)
#define as_ulong16(x) __builtin_astype((x), ulong16)
#define as_half(x) __builtin_astype((x), half)
#define as_half2(x) __builtin_astype((x), half2)
#define as_half3(x) __builtin_astype((x), half3)
#define as_half4(x) __builtin_astype((x), half4)
#define as_half8(x) __builtin_astype((x), half8)
#define as_half16(x) __builtin_astype((x), half16)
#define as_float(x) __builtin_astype((x), float)
#define as_float2(x) __builtin_astype((x), float2)
#define as_float3(x) __builtin_astype((x), float3)
#define as_float4(x) __builtin_astype((x), float4)
#define as_float8(x) __builtin_astype((x), float8)
#define as_float16(x) __builtin_astype((x), float16)
#define as_double(x) __builtin_astype((x), double)
#define as_double2(x) __builtin_astype((x), double2)
#define as_double3(x) __builtin_astype((x), double3)
#define as_double4(x) __builtin_astype((x), double4)
#define as_double8(x) __builtin_astype((x), double8)
#define as_double16(x) __builtin_astype((x), double16)
#endif
#ifdef VDEV_AS_TYPE
#define VDEV_AS(to, from) to __attribute__((overloadable, const)) as_##to(from);
#define VDEV_AS1(to) VDEV_AS(to, char) VDEV_AS(to, uchar) VDEV_AS(to, bool)
#define VDEV_AS2(to) VDEV_AS(to, short) VDEV_AS(to, ushort) VDEV_AS(to, half) VDEV_AS(to, char2) VDEV_AS(to, uchar2)
#define VDEV_AS4(to) VDEV_AS(to, int) VDEV_AS(to, uint) VDEV_AS(to, float) VDEV_AS(to, short2) VDEV_AS(to, ushort2) \
  VDEV_AS(to, half2) VDEV_AS(to, char4) VDEV_AS(to, uchar4) VDEV_AS(to, char3) VDEV_AS(to, uchar3)
#define VDEV_AS8(to) VDEV_AS(to, long) VDEV_AS(to, ulong) VDEV_AS(to, double) VDEV_AS(to, int2) VDEV_AS(to, uint2) \
  VDEV_AS(to, float2) VDEV_AS(to, short4) VDEV_AS(to, ushort4) VDEV_AS(to, half4) VDEV_AS(to, short3) VDEV_AS(to, ushort3) \
  VDEV_AS(to, half3) VDEV_AS(to, char8) VDEV_AS(to, uchar8)
#define VDEV_AS16(to) VDEV_AS(to, long2) VDEV_AS(to, ulong2) VDEV_AS(to, double2) VDEV_AS(to, int4) VDEV_AS(to, uint4) \
  VDEV_AS(to, float4) VDEV_AS(to, int3) VDEV_AS(to, uint3) VDEV_AS(to, float3) VDEV_AS(to, short8) VDEV_AS(to, ushort8) \
  VDEV_AS(to, half8) VDEV_AS(to, char16) VDEV_AS(to, uchar16)
#define VDEV_AS32(to) VDEV_AS(to, long4) VDEV_AS(to, ulong4) VDEV_AS(to, double4) VDEV_AS(to, long3) VDEV_AS(to, ulong3) \
  VDEV_AS(to, double3) VDEV_AS(to, int8) VDEV_AS(to, uint8) VDEV_AS(to, float8) VDEV_AS(to, short16) VDEV_AS(to, ushort16) \
  VDEV_AS(to, half16)
#define VDEV_AS64(to) VDEV_AS(to, long8) VDEV_AS(to, ulong8) VDEV_AS(to, double8) VDEV_AS(to, int16) VDEV_AS(to, uint16) \
  VDEV_AS(to, float16)
#define VDEV_AS128(to) VDEV_AS(to, long16) VDEV_AS(to, ulong16) VDEV_AS(to, double16)
#ifdef VDEV_AS_OF_1
VDEV_AS1(char) VDEV_AS1(uchar)
#endif
#ifdef VDEV_AS_OF_2
VDEV_AS2(short) VDEV_AS2(ushort) VDEV_AS2(half) VDEV_AS2(char2) VDEV_AS2(uchar2)
#endif
#ifdef VDEV_AS_OF_4
VDEV_AS4(int) VDEV_AS4(uint) VDEV_AS4(float) VDEV_AS4(short2) VDEV_AS4(ushort2) VDEV_AS4(half2)
VDEV_AS4(char4) VDEV_AS4(uchar4) VDEV_AS4(char3) VDEV_AS4(uchar3)
#endif
#ifdef VDEV_AS_OF_8
VDEV_AS8(long) VDEV_AS8(ulong) VDEV_AS8(double) VDEV_AS8(int2) VDEV_AS8(uint2) VDEV_AS8(float2)
VDEV_AS8(short4) VDEV_AS8(ushort4) VDEV_AS8(half4) VDEV_AS8(short3) VDEV_AS8(ushort3) VDEV_AS8(half3)
VDEV_AS8(char8) VDEV_AS8(uchar8)
#endif
#ifdef VDEV_AS_OF_16
VDEV_AS16(long2) VDEV_AS16(ulong2) VDEV_AS16(double2) VDEV_AS16(int4) VDEV_AS16(uint4) VDEV_AS16(float4)
VDEV_AS16(int3) VDEV_AS16(uint3) VDEV_AS16(float3) VDEV_AS16(short8) VDEV_AS16(ushort8) VDEV_AS16(half8)
VDEV_AS16(char16) VDEV_AS16(uchar16)
#endif
#ifdef VDEV_AS_OF_32
VDEV_AS32(long4) VDEV_AS32(ulong4) VDEV_AS32(double4) VDEV_AS32(long3) VDEV_AS32(ulong3) VDEV_AS32(double3)
VDEV_AS32(int8) VDEV_AS32(uint8) VDEV_AS32(float8) VDEV_AS32(short16) VDEV_AS32(ushort16) VDEV_AS32(half16)
#endif
#ifdef VDEV_AS_OF_64
VDEV_AS64(long8) VDEV_AS64(ulong8) VDEV_AS64(double8) VDEV_AS64(int16) VDEV_AS64(uint16) VDEV_AS64(float16)
#endif
#ifdef VDEV_AS_OF_128
VDEV_AS128(long16) VDEV_AS128(ulong16) VDEV_AS128(double16)
#endif
#undef VDEV_AS
#undef VDEV_AS1
#undef VDEV_AS2
#undef VDEV_AS4
#undef VDEV_AS8
#undef VDEV_AS16
#undef VDEV_AS32
#undef VDEV_AS64
#undef VDEV_AS128
#endif

// cl_intel_subgroups, _short, _char and _long: shuffles and block transfers, which clang's table lacks.
#ifdef VDEV_INTEL_SUBGROUPS
#define VDEV_SHUFFLE(type) \
  type __attribute__((overloadable, convergent)) intel_sub_group_shuffle(type, uint); \
  type __attribute__((overloadable, convergent)) intel_sub_group_shuffle_xor(type, uint); \
  type __attribute__((overloadable, convergent)) intel_sub_group_shuffle_up(type, type, uint); \
  type __attribute__((overloadable, convergent)) intel_sub_group_shuffle_down(type, type, uint);
#define VDEV_SHUFFLES(type) VDEV_SHUFFLE(type) VDEV_SHUFFLE(type##2) VDEV_SHUFFLE(type##3) VDEV_SHUFFLE(type##4) \
  VDEV_SHUFFLE(type##8) VDEV_SHUFFLE(type##16)
VDEV_SHUFFLES(char) VDEV_SHUFFLES(uchar) VDEV_SHUFFLES(short) VDEV_SHUFFLES(ushort) VDEV_SHUFFLES(int) VDEV_SHUFFLES(uint)
VDEV_SHUFFLES(float) VDEV_SHUFFLE(long) VDEV_SHUFFLE(ulong) VDEV_SHUFFLE(half) VDEV_SHUFFLE(double)
#define VDEV_BLOCK(type, vector, suffix) \
  vector __attribute__((overloadable, convergent)) intel_sub_group_block_read##suffix(const __global type *); \
  vector __attribute__((overloadable, convergent)) intel_sub_group_block_read##suffix(const __local type *); \
  void __attribute__((overloadable, convergent)) intel_sub_group_block_write##suffix(__global type *, vector); \
  void __attribute__((overloadable, convergent)) intel_sub_group_block_write##suffix(__local type *, vector);
#define VDEV_BLOCKS(type, infix) VDEV_BLOCK(type, type, infix) VDEV_BLOCK(type, type##2, infix##2) \
  VDEV_BLOCK(type, type##4, infix##4) VDEV_BLOCK(type, type##8, infix##8)
VDEV_BLOCKS(uint, ) VDEV_BLOCKS(uint, _ui) VDEV_BLOCKS(ushort, _us) VDEV_BLOCKS(uchar, _uc) VDEV_BLOCKS(ulong, _ul)
#undef VDEV_SHUFFLE
#undef VDEV_SHUFFLES
#undef VDEV_BLOCK
#undef VDEV_BLOCKS
#endif

#endif
