// The Khronos C++ bindings (opencl-clhpp-headers): three steps of an N-body simulation, and an exception.
#define CL_HPP_ENABLE_EXCEPTIONS
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#include <CL/opencl.hpp>
#include <cstdio>
#include <vector>
int main(){
  cl::Platform p=cl::Platform::getDefault(); cl::Device d=cl::Device::getDefault(); cl::Context c(d); cl::CommandQueue q(c,d,cl::QueueProperties::Profiling);
  cl::Program g(c,"kernel void k(global const float4*p,global float4*v,int n,float dt){int i=get_global_id(0);float4 a=0;for(int j=0;j<n;j++){float4 r=p[j]-p[i];r.w=0;float s=rsqrt(dot(r,r)+0.01f);a+=r*(p[j].w*s*s*s);}v[i]+=dt*a;}");
  g.build("-cl-std=CL1.2"); cl::KernelFunctor<cl::Buffer,cl::Buffer,int,float> k(g,"k"); const int n=2048;
  std::vector<cl_float4> P(n),V(n); for(int i=0;i<n;i++){P[i]={{(float)(i%37),(float)(i%41),(float)(i%43),1.f}};V[i]={{0,0,0,0}};}
  cl::Buffer a(c,P.begin(),P.end(),true),b(c,V.begin(),V.end(),false);
  for(int s=0;s<3;s++){cl::Event e=k(cl::EnqueueArgs(q,cl::NDRange(n),cl::NDRange(64)),a,b,n,0.01f);e.wait();}
  cl::copy(q,b,V.begin(),V.end()); double e=0; for(auto&v:V)e+=v.s[0]*v.s[0]+v.s[1]*v.s[1]+v.s[2]*v.s[2]; printf("energy %.4e\n",e);
  try{cl::Kernel bad(g,"none");}catch(cl::Error&x){printf("%s %d\n",x.what(),x.err());}
}
