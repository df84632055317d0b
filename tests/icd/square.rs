// Squares numbers with OpenCL, through declarations of its own.
use std::{ffi::c_void, ptr::{null, null_mut}};
type P = *mut c_void;
#[link(name = "OpenCL")]
extern "C" {
    fn clGetPlatformIDs(n: u32, p: *mut P, f: *mut u32) -> i32;
    fn clGetDeviceIDs(p: P, k: u64, n: u32, d: *mut P, f: *mut u32) -> i32;
    fn clCreateContext(q: *const isize, n: u32, d: *const P, f: P, u: P, c: *mut i32) -> P;
    fn clCreateCommandQueue(c: P, d: P, q: u64, e: *mut i32) -> P;
    fn clCreateProgramWithSource(c: P, n: u32, t: *const *const u8, l: *const usize, e: *mut i32) -> P;
    fn clBuildProgram(p: P, n: u32, d: *const P, o: *const u8, f: P, u: P) -> i32;
    fn clCreateKernel(p: P, n: *const u8, e: *mut i32) -> P;
    fn clCreateBuffer(c: P, f: u64, n: usize, h: P, e: *mut i32) -> P;
    fn clSetKernelArg(k: P, i: u32, n: usize, v: *const c_void) -> i32;
    fn clEnqueueNDRangeKernel(q: P, k: P, d: u32, o: *const usize, g: *const usize, l: *const usize, n: u32, w: *const P, e: *mut P) -> i32;
    fn clEnqueueReadBuffer(q: P, b: P, k: u32, o: usize, n: usize, h: P, c: u32, w: *const P, e: *mut P) -> i32;
}
fn main() {
    unsafe {
        let (count, mut e, mut p, mut d) = (4096usize, 0i32, null_mut(), null_mut());
        clGetPlatformIDs(1, &mut p, null_mut());
        clGetDeviceIDs(p, 0xFFFFFFFF, 1, &mut d, null_mut());
        let c = clCreateContext(null(), 1, &d, null_mut(), null_mut(), &mut e);
        let q = clCreateCommandQueue(c, d, 0, &mut e);
        let text = b"kernel void square(global float *a) { size_t i = get_global_id(0); a[i] = i * 0.5f; a[i] *= a[i]; }";
        let (t, l) = (text.as_ptr(), text.len());
        let program = clCreateProgramWithSource(c, 1, &t, &l, &mut e);
        println!("built: {}", clBuildProgram(program, 0, null(), b"\0".as_ptr(), null_mut(), null_mut()));
        let k = clCreateKernel(program, b"square\0".as_ptr(), &mut e);
        let b = clCreateBuffer(c, 1, 4 * count, null_mut(), &mut e);
        clSetKernelArg(k, 0, 8, &b as *const P as *const c_void);
        clEnqueueNDRangeKernel(q, k, 1, null(), &count, null(), 0, null(), null_mut());
        let mut found = vec![0f32; count];
        println!("read: {}", clEnqueueReadBuffer(q, b, 1, 0, 4 * count, found.as_mut_ptr() as P, 0, null(), null_mut()));
        println!("{} {}", found[3], found[count - 1]);
    }
}
