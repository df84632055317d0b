"""Programs whose C means something else, or nothing, in C++: each compiles for CUDA, as OpenCL C 1.2 and as 2.0."""

from __future__ import annotations

import pytest
from vdev.translators.cuda import translate_cuda
from vdev.translators.source import parse_program

from .nvrtc import MISSING, compile_cuda, library

# ruff: noqa: E501 - kernels are texts
FORMS = {
    "union_init": """
        kernel void k(global float*a){ union {float4 v; float f[4];} u = {.f={1,2,3,4}}, w={(float4)(1)}; a[0]=u.v.x+w.f[1]; }""",
    "array_param": """
        float s(float a[4], const float b[2][2]){return a[1]+b[1][0];}
        kernel void k(global float*a){ float t[4]={1,2}; float m[2][2]={{1,2},{3,4}}; a[0]=s(t,m); }""",
    "mixed_decl": """
        kernel void k(global float*a){ float *p, q[3], r=2, **pp; p=q; pp=&p; q[0]=r; a[0]=**pp; }""",
    "volatile_struct": """
        typedef struct {int a,b;} S;
        kernel void k(volatile global S*s, global S*t){ S x=s[0]; t[0]=x; s[1]=x; s[2]=s[3]; }""",
    "switch_decl": """
        kernel void k(global int*a){ switch(a[0]){ case 1: {int y=2; a[1]=y;} break; case 2:; int z=a[2]; int4 v=(int4)(z); a[3]=v.y; break; case 3: a[4]=1; } }""",
    "gotoover": """
        kernel void k(global int*a){ int n=0; loop: if(n>3) goto out; int4 v=(int4)(n); n+=v.x+1; goto loop; out: a[0]=n; }""",
    "voidp": """
        kernel void k(global void*a, global int*b){ global float*f=a; f[0]=1; global void*q=b; ((global int*)q)[1]=2; global uchar*c=(global uchar*)b+3; c[0]=1; }""",
    "sizes": """
        typedef struct {float4 a;} S;
        kernel void k(global int*a){ a[0]=sizeof(local float*); a[1]=sizeof(S); a[2]=sizeof(*a); a[3]=sizeof(__global float4); }""",
    "fnames": """
        float sqrtf(float x){return sqrt(x);}
        int abs_(int x){return abs(x);}
        float fmaxf(float a,float b){return fmax(a,b);}
        float rsqrtf(float x){return 1/x;}
        kernel void k(global float*a){ a[0]=sqrtf(a[1])+fmaxf(a[2],3)+abs_(-3)+rsqrtf(2); }""",
    "ownclamp": """
        float clamp01(float x){return clamp(x,0.0f,1.0f);} float3 reflect(float3 i, float3 n){ return i-2*dot(n,i)*n; }
        kernel void k(global float3*a){ a[0]=reflect(a[1],normalize(a[2]))*clamp01(a[0].x); a[1].xyz=fmax(a[1],0.0f); a[2]=mix(a[0],a[1],0.5f);}""",
    "typedefs": """
        typedef float real; typedef real real4 __attribute__((ext_vector_type(4)));
        kernel void k(global real4*a){ real4 x=(real4)(1); a[0]=x.wzyx*a[1]; }""",
    "realdef": """
        typedef float4 vec4; typedef struct {vec4 p; vec4 q;} ray; ray make(vec4 a){ ray r; r.p=a; r.q=a.zwxy; return r;}
        kernel void k(global vec4*a){ ray r=make(a[0]); a[1]=r.p+r.q; ray s={a[0],a[1]}; a[2]=s.q; ray t[2]={{a[0],a[1]},s}; a[3]=t[1].p; const ray c=make((vec4)(1,2,3,4)); a[4]=c.q; }""",
    "enumfn": """
        typedef enum {A,B} E; E f(int x){ return x; }
        int g(E e){ return e==A; }
        kernel void k(global int*a){ E e=f(1); e=a[0]; a[1]=g(2)+e; switch(e){case A: a[2]=1; break; case 1: a[3]=2;} for(E i=A;i<=B;i++) a[4]+=i; }""",
    "boolv": """
        bool t(float x){ return x>0;}
        kernel void k(global int*a){ bool b=a[0]; b=b&&t(2); b|=a[1]; a[2]=b; int i=t(1)+t(2); a[3]=i; a[4]=!b; }""",
    "ptrconst": """
        void f(global const int*p, global int*q){ q[0]=p[0]; }
        kernel void k(global int*a){ f(a,a+1); const global int*p=a; global int*q=(global int*)p; q[2]=1; }""",
    "ternptr": """
        kernel void k(global int*a, global int*b){ global int*p = a[0]? a: b; p[0]=1; global int*q = a[1]? p: 0; if(q) q[1]=2; global int *r = a[2] ? NULL : p; if(r!=NULL) r[2]=1;}""",
    "ternmix": """
        kernel void k(global float4*a, global int*n){ float4 v = n[0] ? a[0] : (float4)(0); float x = n[1] ? 1 : 2.5f; a[1]=v*x; a[2]= n[2]>0 ? 1.0f : a[3]; int4 c=(a[0]>a[1])?(int4)(1):(int4)(2); a[4]=convert_float4(c);}""",
    "lvals": """
        kernel void k(global float4*a){ float4 v=a[0]; (v.xy)=(float2)(1); v.x+=2; v.s01*=3; (v).w=1; float4*p=&v; p->x=3; (*p).yz=p->zy; ++v.x; v.y++; v.zw-=1; a[0]=v; a[1].lo.x=v.hi.y; a[2].s3=1; }""",
    "scalarops": """
        kernel void k(global float4*a, global int4*b){ a[0]=2.0f*a[1]; a[1]=a[0]/2; a[2]=1-a[1]; b[0]=b[1]&3; b[2]=(int4)(1)<<b[0]; b[3]=b[0]%2; b[4]=b[0]>2; b[5]=-b[1]+~b[2]; a[3]=a[2]*(float)b[0].x; b[6]+=(b[0]==b[1])*3; a[4]*=2; a[5]+=1;}""",
    "calls": """
        kernel void k(global float*a, global float2*b){ a[0]=pow(a[1],2); a[2]=pow(a[1],2.0f); a[3]=fmin(a[0],1); a[4]=max(a[1],0.f); a[5]=exp(-a[1]*a[2]); a[6]=native_exp(1); a[7]=fabs(a[1]-1); a[8]=atan2(a[1],1); b[0]=pow(b[1],(float2)(2)); b[2]=fmin(b[0],1.0f); a[9]=log(2.0f)*mad(a[0],2,1); a[10]=hypot(3,a[1]);}""",
    "intcalls": """
        kernel void k(global int*a, global uint*u, global long*l){ a[0]=max(a[1],3); a[2]=min(a[1],(int)u[0]); u[1]=max(u[0],3u); a[3]=abs(a[1]-2); a[4]=clamp(a[0],0,10); l[0]=max(l[1],(long)a[0]); u[2]=popcount(u[0]); a[5]=mul24(a[0],3); a[6]=mad24(a[0],a[1],2); u[3]=rotate(u[1],3u); a[7]=select(a[0],a[1],a[2]>0); a[8]=isnan((float)a[0]);}""",
    "atom": """
        kernel void k(volatile global int*a, local int*b, global uint*u){ atomic_add((volatile global int*)&a[1],2); atomic_inc(&b[0]); atomic_max(u,(uint)a[0]); atom_add(a,1); int o=atomic_cmpxchg(a,0,1); atomic_add(u,o); atomic_xchg((volatile global float*)a, 1.0f); atom_xchg(u,2u);}""",
    "atomf": """
        void add(volatile global float*p, float v){ union {uint u; float f;} o,n; do { o.f=*p; n.f=o.f+v; } while(atomic_cmpxchg((volatile global uint*)p,o.u,n.u)!=o.u); }
        kernel void k(global float*a){ add(a,1); add(&a[1],2.0f); }""",
    "reqd": """
        __attribute__((reqd_work_group_size(16,16,1))) __attribute__((vec_type_hint(float4))) kernel void k(global float*a){ a[get_global_id(0)]=get_local_size(1); }""",
    "attr": """
        struct __attribute__((packed)) P {char a; int b;}; typedef struct {int x __attribute__((aligned(8)));} Q;
        kernel void k(global struct P*p, global Q*q){ p[0].b=sizeof(Q); q[0].x=p[0].b; }""",
    "structpass": """
        typedef struct {int a; float b;} S;
        kernel void k(S s, global S*o, constant S*c, local S*l){ o[0]=s; o[1]=c[0]; l[0]=s; barrier(1); o[2]=l[0]; o[3]=(S){1,2}; S z=o[0]; z.b+=1; o[4]=z; }""",
    "cfuncs": """
        static float f(float x){return x*2;}
        inline float g(float x){return f(x);}
        __attribute__((noinline)) float h(float x){return g(x);}
        kernel void k(global float*a){ a[0]=h(a[1]); }""",
    "constptr": """
        constant float w[3]={1,2,3}; float f(constant float*p,int i){return p[i];}
        kernel void k(global float*a, constant float*c){ a[0]=f(w,1)+f(c,2); constant float*p = a[1]>0?w:c; a[2]=p[0]; }""",
    "arrconst": """
        kernel void k(global float*a){ const float w[5]={.1,.2,.3,.4,.5}; float s=0; for(int i=0;i<5;i++) s+=w[i]*a[i]; a[0]=s; const int d[][2]={{1,2},{3,4}}; a[1]=d[1][0]; }""",
    "emptystruct": """
        typedef struct S S; struct S { S*next; int v; };
        kernel void k(global int*a){ S x; x.next=0; x.v=1; S y={&x,2}; a[0]=y.next->v; }""",
    "shadow": """
        int f(int float4x){ int half_=1; return float4x+half_; }
        kernel void k(global int*a){ int min_=1, kernel_=2; { int a_=3; a[0]=f(a_); } for(int i=0, j=3; i<j; i++, j--) a[i]=j; }""",
    "dblconst": """
        kernel void k(global float*a, global double*d){ a[0]=1.0; a[1]=a[0]*1.5; d[0]=1.5f*d[1]; a[2]=(float)(1.0/3); a[3]=1e-3; a[4]=0x1.8p3f; a[5]=M_PI; a[6]=FLT_EPSILON*MAXFLOAT; a[7]=(a[0]>0.5)?1.0:0.0;}""",
    "halfs": """
        kernel void k(global half*h, global float*f, local half*l){ size_t i=get_global_id(0); f[i]=vload_half(i,h); vstore_half(f[i]*2,i,h); vstore_half4_rtz((float4)(f[i]),i,h); float8 v=vload_half8(0,l); f[0]=v.s7; global half*p=h+3; vstore_half(1.0f,0,p);}""",
    "images_event": """
        kernel void k(global float*a, local float*l){ event_t e[2]; e[0]=async_work_group_copy(l,a,32,0); e[1]=async_work_group_copy(l+32,a+32,32,e[0]); wait_group_events(2,e); a[get_local_id(0)]=l[1]; }""",
    "constlocal": """
        kernel void k(global float*a){ local float s[2][3]; local int n; if(get_local_id(0)==0){ n=3; s[1][2]=4; } barrier(CLK_LOCAL_MEM_FENCE); a[0]=s[1][2]*n; }""",
    "localinblock": """
        kernel void k(global float*a){ for(int i=0;i<2;i++){ a[i]=i; } local float4 t[8]; { t[0]=(float4)(1); } local struct {int a; float4 b;} u; u.a=1; barrier(1); a[0]=t[0].x+u.a; }""",
    "ushift": """
        kernel void k(global uchar*a, global ushort*b, global ulong*c){ a[0]=a[1]<<3; b[0]>>=2; c[0]=1ul<<a[0]; c[1]=c[0]>>(a[1]&63); a[2]|=1<<a[3]; b[1]=(ushort)(b[0]<<8|b[0]>>8); a[4]=~a[5]; a[6]^=0xff; b[2]=-b[3]; }""",
    "minmaxv": """
        kernel void k(global uchar4*a, global short2*b){ a[0]=max(a[1],a[2]); a[3]=add_sat(a[0],(uchar4)(3)); a[4]=min(a[0],(uchar)5); a[5]=a[1]>a[2]?a[1]:a[2]; b[0]=abs_diff(b[1],b[2]).x; a[6]=convert_uchar4_sat(convert_int4(a[1])*2-1); a[7]=rhadd(a[0],a[1]); a[8]=as_uchar4(as_uint(a[0])+1u); a[9].s0=a[8].s3; }""",
    "forwarddecl": """
        float helper(float x);
        kernel void k(global float*a){ a[0]=helper(a[1]); }
        float helper(float x){ return x+get_global_id(0); }""",
    "twokernels": """
        kernel void a(global int*x){ x[get_global_id(0)]=1; }
        kernel void b(global int*x, int y){ a(x); x[1]=y; }
        __kernel __attribute__((work_group_size_hint(8,1,1))) void c(__global int* restrict x){ b(x,2); }""",
    "voidargs": """
        kernel void k(void){ }
        kernel void k2(){ barrier(CLK_LOCAL_MEM_FENCE); }""",
    "unaryplus": """
        kernel void k(global float4*a, global char*c){ a[0]=+a[1]; a[1]=-(-a[2]); c[0]=-c[1]; c[2]=+c[3]; c[4]=c[0]*c[1]+c[2]; c[5]+=c[0]; c[6]=c[0]>c[1]; }""",
    "ptrarith": """
        kernel void k(global float*a, uint n){ global float*end=a+n; for(global float*p=a; p<end; p+=4) *p++=1; long d=end-a; a[0]=d; a+=3; a[-1]=2; global float4*v=(global float4*)(a+1); v->x=1; (v+1)->yz=(float2)(1); *v=*(v+1); }""",
    "ternvoid": """
        void f(global int*a){a[0]=1;}
        kernel void k(global int*a){ a[1]? f(a): (void)0; (void)a[0]; ; if(a[2]) ; else a[3]=1; do ; while(0); }""",
    "consts": """
        kernel void k(global float*a, global int*n){ a[0]=INFINITY; a[1]=NAN; a[2]=HUGE_VALF; n[0]=INT_MAX+UCHAR_MAX+CHAR_BIT+SHRT_MIN; n[1]=FLT_DIG; a[3]=M_SQRT2_F*M_E_F; n[2]=(int)LONG_MAX; n[3]=UINT_MAX>>1; a[4]=FLT_MIN; a[5]=-INFINITY; a[6]=isinf(INFINITY);}""",
    "vecarr": """
        kernel void k(global float4*a){ float4 m[4]; for(int i=0;i<4;i++) m[i]=a[i]; float4 r=(float4)(dot(m[0],a[4]),dot(m[1],a[4]),dot(m[2],a[4]),dot(m[3],a[4])); float*f=(float*)&m[1]; f[2]=1; a[5]=r+m[1]; float4 t[2][2]={{r,r},{m[0],m[1]}}; a[6]=t[1][0]; }""",
}


@pytest.mark.skipif(library() is None, reason=MISSING)
@pytest.mark.parametrize("name", FORMS)
def test_compiles(name: str) -> None:
    for options in ((), ("-cl-std=CL2.0",)):
        program = translate_cuda(parse_program(FORMS[name], options))
        done, text = compile_cuda(program.source, program.options)
        assert done, text[:4000]
        assert text.count(".visible .entry") == len(program.kernels)
