// ViennaCL (libviennacl-dev): vectors, a product of matrices, conjugate gradients.
#define VIENNACL_WITH_OPENCL
#include <viennacl/vector.hpp>
#include <viennacl/matrix.hpp>
#include <viennacl/compressed_matrix.hpp>
#include <viennacl/linalg/prod.hpp>
#include <viennacl/linalg/inner_prod.hpp>
#include <viennacl/linalg/norm_2.hpp>
#include <viennacl/linalg/cg.hpp>
#include <cstdio>
#include <vector>
#include <map>
int main() {
  const size_t n=2000; std::vector<float> a(n),b(n);
  for(size_t i=0;i<n;i++){a[i]=i%11;b[i]=i%5;}
  viennacl::vector<float> va(n),vb(n),vc(n); viennacl::copy(a,va); viennacl::copy(b,vb);
  vc=va+2.0f*vb; float ip=viennacl::linalg::inner_prod(va,vb), nr=viennacl::linalg::norm_2(vc);
  printf("inner %.1f norm %.3f\n",ip,nr);
  const size_t m=96; viennacl::matrix<float> A(m,m),B(m,m),C(m,m); std::vector<std::vector<float>> h(m,std::vector<float>(m));
  for(size_t i=0;i<m;i++)for(size_t j=0;j<m;j++)h[i][j]=float((i*j)%9); viennacl::copy(h,A); viennacl::copy(h,B);
  C=viennacl::linalg::prod(A,B); viennacl::copy(C,h); double s=0; for(auto&r:h)for(float x:r)s+=x; printf("prod %.1f\n",s);
  std::vector<std::map<unsigned,float>> sp(n); for(size_t i=0;i<n;i++){sp[i][i]=4;if(i)sp[i][i-1]=-1;if(i+1<n)sp[i][i+1]=-1;}
  viennacl::compressed_matrix<float> S(n,n); viennacl::copy(sp,S);
  viennacl::linalg::cg_tag tag(1e-5,50); viennacl::vector<float> x=viennacl::linalg::solve(S,va,tag);
  viennacl::vector<float> r=viennacl::linalg::prod(S,x); r-=va; printf("cg %d\n", viennacl::linalg::norm_2(r)<1e-2);
}
