// CLBlast (libclblast-dev): four routines of BLAS, checked against loops.
#include <clblast.h>
#include <cstdio>
#include <vector>
#include <cmath>
int main() {
  cl_platform_id p; cl_device_id d; cl_int e;
  clGetPlatformIDs(1,&p,0); clGetDeviceIDs(p,CL_DEVICE_TYPE_ALL,1,&d,0);
  cl_context c=clCreateContext(0,1,&d,0,0,&e); cl_command_queue q=clCreateCommandQueue(c,d,0,&e);
  const size_t n=192; std::vector<float> A(n*n),B(n*n),C(n*n,0.5f);
  for(size_t i=0;i<n*n;i++){A[i]=float(i%13)-6;B[i]=float(i%7)-3;}
  auto mk=[&](std::vector<float>&v){cl_mem m=clCreateBuffer(c,CL_MEM_READ_WRITE|CL_MEM_COPY_HOST_PTR,v.size()*4,v.data(),&e);return m;};
  cl_mem a=mk(A),b=mk(B),cc=mk(C); cl_event ev=nullptr;
  auto s=clblast::Gemm(clblast::Layout::kRowMajor,clblast::Transpose::kNo,clblast::Transpose::kYes,n,n,n,2.0f,a,0,n,b,0,n,1.0f,cc,0,n,&q,&ev);
  printf("gemm %d\n",(int)s); if(ev){clWaitForEvents(1,&ev);clReleaseEvent(ev);}
  clEnqueueReadBuffer(q,cc,CL_TRUE,0,n*n*4,C.data(),0,0,0);
  double sum=0,worst=0; for(size_t i=0;i<n;i++)for(size_t j=0;j<n;j++){double r=0.5;for(size_t k=0;k<n;k++)r+=2.0*A[i*n+k]*B[j*n+k]; worst=std::max(worst,std::fabs(r-C[i*n+j])); sum+=C[i*n+j];}
  printf("sum %.1f worst %.3f\n",sum,worst);
  s=clblast::Axpy(n*n,3.0f,a,0,1,b,0,1,&q); clFinish(q); clEnqueueReadBuffer(q,b,CL_TRUE,0,n*n*4,B.data(),0,0,0);
  sum=0; for(float x:B) sum+=x; printf("axpy %d %.1f\n",(int)s,sum);
  cl_mem r=clCreateBuffer(c,CL_MEM_READ_WRITE,4,0,&e); float dot;
  s=clblast::Dot<float>(n*n,r,0,a,0,1,b,0,1,&q); clEnqueueReadBuffer(q,r,CL_TRUE,0,4,&dot,0,0,0); printf("dot %d %.1f\n",(int)s,dot);
  s=clblast::Gemv(clblast::Layout::kRowMajor,clblast::Transpose::kNo,n,n,1.0f,a,0,n,b,0,1,0.0f,cc,0,1,&q); clEnqueueReadBuffer(q,cc,CL_TRUE,0,n*4,C.data(),0,0,0);
  sum=0; for(size_t i=0;i<n;i++) sum+=C[i]*(i%5); printf("gemv %d %.1f\n",(int)s,sum);
  clReleaseMemObject(a);clReleaseMemObject(b);clReleaseMemObject(cc);clReleaseMemObject(r);clReleaseCommandQueue(q);clReleaseContext(c);
}
