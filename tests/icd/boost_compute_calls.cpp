// Boost.Compute (libboost-dev): sort, reduce, scan, transform, count.
#define CL_TARGET_OPENCL_VERSION 120
#include <boost/compute.hpp>
#include <cstdio>
#include <vector>
#include <numeric>
namespace bc=boost::compute;
int main(){
  bc::device d=bc::system::default_device(); bc::context c(d); bc::command_queue q(c,d);
  const size_t n=20000; std::vector<int> h(n); unsigned x=1; for(auto&v:h){x=x*1664525u+1013904223u;v=int(x>>12)%1000;}
  bc::vector<int> v(n,c); bc::copy(h.begin(),h.end(),v.begin(),q);
  bc::sort(v.begin(),v.end(),q); std::vector<int> o(n); bc::copy(v.begin(),v.end(),o.begin(),q);
  long w=0; for(size_t i=0;i<n;i++) w+=long(o[i])*(i%17); printf("sorted %d %ld\n",(int)std::is_sorted(o.begin(),o.end()),w);
  int total=0; bc::reduce(v.begin(),v.end(),&total,q); printf("sum %d\n",total);
  bc::vector<int> p(n,c); bc::exclusive_scan(v.begin(),v.end(),p.begin(),q); int last; bc::copy_n(p.end()-1,1,&last,q); printf("scan %d\n",last);
  BOOST_COMPUTE_FUNCTION(int,f,(int a),{return a*a%7;}); bc::transform(v.begin(),v.end(),p.begin(),f,q); int t2=0; bc::reduce(p.begin(),p.end(),&t2,q); printf("transform %d\n",t2);
  printf("count %d\n",(int)bc::count_if(v.begin(),v.end(),bc::lambda::_1>500,q));
}
