import com.sun.jna.*;
import com.sun.jna.ptr.*;

/** Squares numbers with OpenCL, through JNA. */
class Square {
    public interface CL extends Library {
        int clGetPlatformIDs(int count, Pointer[] platforms, IntByReference found);
        int clGetDeviceIDs(Pointer platform, long kinds, int count, Pointer[] devices, IntByReference found);
        Pointer clCreateContext(Pointer properties, int count, Pointer[] devices, Pointer notify, Pointer data, IntByReference code);
        Pointer clCreateCommandQueue(Pointer context, Pointer device, long properties, IntByReference code);
        Pointer clCreateProgramWithSource(Pointer context, int count, String[] texts, Pointer lengths, IntByReference code);
        int clBuildProgram(Pointer program, int count, Pointer devices, String options, Callback notify, Pointer data);
        Pointer clCreateKernel(Pointer program, String name, IntByReference code);
        Pointer clCreateBuffer(Pointer context, long flags, NativeLong nbytes, Pointer host, IntByReference code);
        int clSetKernelArg(Pointer kernel, int index, NativeLong nbytes, PointerByReference value);
        int clEnqueueNDRangeKernel(Pointer queue, Pointer kernel, int dims, Pointer offset, NativeLongByReference global,
            Pointer local, int count, Pointer waits, PointerByReference event);
        int clSetEventCallback(Pointer event, int status, Callback notify, Pointer data);
        int clEnqueueReadBuffer(Pointer queue, Pointer buffer, int blocking, NativeLong offset, NativeLong nbytes, float[] data,
            int count, Pointer waits, Pointer event);
        int clFinish(Pointer queue);
    }
    public interface Notify extends Callback { void invoke(Pointer event, int status, Pointer data); }

    public static void main(String[] words) throws Exception {
        CL cl = Native.load("OpenCL", CL.class);
        int count = 4096;
        IntByReference code = new IntByReference();
        Pointer[] platforms = new Pointer[1], devices = new Pointer[1];
        cl.clGetPlatformIDs(1, platforms, null);
        cl.clGetDeviceIDs(platforms[0], 0xFFFFFFFFL, 1, devices, null);
        Pointer context = cl.clCreateContext(null, 1, devices, null, null, code);
        Pointer queue = cl.clCreateCommandQueue(context, devices[0], 0, code);
        String text = "kernel void square(global float *a) { size_t i = get_global_id(0); a[i] = i * 0.5f; a[i] *= a[i]; }";
        Pointer program = cl.clCreateProgramWithSource(context, 1, new String[] {text}, null, code);
        System.out.println("built: " + cl.clBuildProgram(program, 0, null, "", null, null));
        Pointer kernel = cl.clCreateKernel(program, "square", code);
        Pointer buffer = cl.clCreateBuffer(context, 1, new NativeLong(4 * count), null, code);
        cl.clSetKernelArg(kernel, 0, new NativeLong(8), new PointerByReference(buffer));
        PointerByReference event = new PointerByReference();
        cl.clEnqueueNDRangeKernel(queue, kernel, 1, null, new NativeLongByReference(new NativeLong(count)), null, 0, null, event);
        int[] called = {-1};
        java.util.concurrent.CountDownLatch ended = new java.util.concurrent.CountDownLatch(1);
        Notify notify = (e, status, data) -> { called[0] = status; ended.countDown(); };
        cl.clSetEventCallback(event.getValue(), 0, notify, null);
        float[] found = new float[count];
        System.out.println("read: " + cl.clEnqueueReadBuffer(queue, buffer, 1, new NativeLong(0), new NativeLong(4 * count), found, 0, null, null));
        ended.await();
        System.out.println("called back: " + called[0]);
        System.out.println(found[3] + " " + found[count - 1]);
    }
}
