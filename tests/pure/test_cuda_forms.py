"""Programs whose C means something else, or nothing, in C++: each compiles for CUDA, as OpenCL C 1.2 and as 2.0."""

from __future__ import annotations

import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.dialects.subgrid import translate_subgrid
from vdev.translators.frontend import clang
from vdev.translators.frontend.source import ParsedProgram, parse_program

from .nvrtc import MISSING, compile_cuda, library

# ruff: noqa: E501 - kernels are texts
FORMS = {
    "no_blanks": """
        typedef struct __attribute__((packed)){char c;int4 v;int s;}Q;enum E{A};
        kernel void k(global int*o,global float*g,global Q*q,global uint4*u){int x=o[0];float f=g[0];enum E e=x?A:A;
        switch(x){case 1:as_int(f);case 2:vstore4(q->v,0,o);case 3:convert_int(f);default:o[2]=e;lab:q->s++;}o[1]=x?1:(x?2:as_int(f));
        int4 w=x?q->v:as_int4(u[0]);w=x?w:convert_int4(u[0]);w=x?w:u[0].x?w:q->v;o[0]=x?o[4]:vload_half(0,(global half*)g);
        w=x?w:(int4)(1);w=x?w:(int4)(1,2,3,4);w=x?w:w.wzyx;global int*p=x?o:&q->s;p[0]=x?w.x:convert_int_sat(f);if(x==5)goto lab;vstore4(w,1,p);}""",
    "restrict": """
        __kernel void __attribute__((reqd_work_group_size(4, 1, 1))) k(__global float *__restrict__ a, __global float const *__restrict b, global int *restrict c, int const n)
        { a[0] = b[n] + c[0]; }""",
    "gnu_qualifiers": """
        kernel void k(global __const__ int *a, global __volatile__ int *b, __global __signed__ char *c, global __const int *__restrict__ d) { b[0] = a[0] + c[1] + d[2]; }""",
    "inline_spellings": """
        __inline__ int f(int x) { return x + 1; } static __inline int g(int x) { return f(x); } int h(int x); inline __attribute__((always_inline)) int h(int x) { return x; }
        kernel void k(global int*a){ a[0]=f(1)+g(2)+h(3); }""",
    "attribute_places": """
        static int __attribute__((always_inline)) f(int x) { return x; } static int g(int x) __attribute__((const)); static int g(int x) { return x; }
        kernel __attribute__((vec_type_hint(float4))) __attribute__((work_group_size_hint(8, 1, 1))) void k(global int *a, int n __attribute__((unused)))
        { int q __attribute__((aligned(16))) = 3; switch (a[0]) { case 1: a[1] = 1; __attribute__((fallthrough)); case 2: a[2] = f(g(q)); } }""",
    "attributes_over_lines": """
        typedef struct __attribute__
        ((
        aligned
        (
        16 ), packed\t)) { char a; int b __attribute__ ( ( aligned\t(8) ) ); } s;
        kernel void k(global s *a) { local int t __attribute__((aligned
        (64))); t = a[0].b; a[1].b = t + sizeof(s); }""",
    "kernel_behind": """
        __attribute__((reqd_work_group_size(4, 1, 1))) __kernel void j(__global float *x) { x[0] = 1; }
        void __kernel k(__global float *x) { x[0] = 1; }""",
    "bracket_qualifiers": """
        int s(int n, const int t[static 3], int u[const], float v[restrict 2]) { return t[n] + u[0] + (int)v[1]; }
        kernel void k(global int*a){ int t[3]={1,2}, u[1]={3}; float v[2]={4}; a[0]=s(1,t,u,v); }""",
    "names_of_macros": """
        int assert(int x) { return x; } int memcpy(int x) { return x; } int isnanf(int x) { return x; } int clock(int x) { return x; }
        kernel void k(global int*a, int assert_){ int assert = 3; a[0]=memcpy(1)+isnanf(2)+clock(3)+assert; }""",
    "defined_in_a_result": """
        static struct p { int x; struct q { int y; } z; } f(int n) { struct p r = { n, { n + 1 } }; return r; } struct q *g(struct p *a) { return &a->z; }
        union u { int i; float f; } *h(union u *a) { return a; }
        kernel void k(global int *a) { struct p r = f(a[0]); struct q s = *g(&r); union u t = { 3 }; a[1] = r.x + s.y + h(&t)->i; }""",
    "machine_code": """
        kernel void k(global int *a) { int r; __asm__ volatile("add.s32 %0, %1, 1;" : "=r"(r) : "r"(a[0])); __asm("" ::: "memory"); a[1] = r; }""",
    "no_words_here": """
        typedef struct { int asm, typeof; } s; int va_start(int typeof) { return typeof; }
        kernel void k(global int *a, int asm) { s q = { .asm = 1, .typeof = asm }; if (asm) goto typeof; a[0] = va_start(q.asm); typeof: a[1] = q.typeof; }""",
    "nested_names": """
        struct o { struct class { int x; } this; enum template { new, delete } y; };
        kernel void k(global struct o *a, global struct class *b) { a[0].this = b[0]; a[0].y = delete; }""",
    "nested_in_parameter": """
        typedef struct { struct i { int x; } a, b[2]; } s; int f(struct i q, const struct i *p) { return q.x + p->x; }
        kernel void k(global int *r, s v) { r[0] = f(v.a, &v.a); }""",
    "union_init": """
        kernel void k(global float*a){ union {float4 v; float f[4];} u = {.f={1,2,3,4}}, w={(float4)(1)}; a[0]=u.v.x+w.f[1]; }""",
    "array_param": """
        float s(float a[4], const float b[2][2]){return a[1]+b[1][0];}
        kernel void k(global float*a){ float t[4]={1,2}; float m[2][2]={{1,2},{3,4}}; a[0]=s(t,m); }""",
    "kernel_array_params": """
        typedef const int row[4]; int g(const global int x[], const global int y[][4]) { return x[1] + y[1][2]; }
        kernel void k(global float a[], const global float b[16], const global int c[][4], global row d[], const volatile global int e[], constant float f[4], local int t[])
        { int i = get_global_id(0); const global int *p = c[i]; t[0] = e[i]; a[i] = b[i & 15] + c[1][2] + d[2][3] + *p + g(c[2], c) + f[i & 3] + *b; }""",
    "mixed_decl": """
        kernel void k(global float*a){ float *p, q[3], r=2, **pp; p=q; pp=&p; q[0]=r; a[0]=**pp; }""",
    "volatile_struct": """
        typedef struct {int a,b;} S;
        kernel void k(volatile global S*s, global S*t){ S x=s[0]; t[0]=x; s[1]=x; s[2]=s[3]; }""",
    "volatile_members": """
        struct I { int a, b; }; typedef volatile struct I V; typedef union { int i; float f; } U;
        typedef struct { volatile struct I f, g[2]; struct I volatile h; V t, w[2][2]; volatile struct { struct I in; volatile int n; } d; volatile U u; int last; } S;
        struct O { S s; const volatile struct I c; union { volatile struct I one; int two; }; };
        int f(S s, volatile struct I *p) { struct I k = *p; return s.f.a + s.g[1].b + k.a + s.u.i; }
        kernel void k(global S *s, global struct O *o) { S x = s[0], y[2] = {{{1, 2}}}; struct O z = o[1]; struct I i = x.f; x.g[1] = i; x.t = x.w[1][0]; x.h = z.c; y[1] = x;
          volatile struct I *p = &x.g[0]; p->a = 3; x.d.in = *p; x.d.n += x.d.in.b; z.one.a = z.two; x.u.f = 1.5f; x.f.a++; s[1] = x; s[2] = y[1]; o[2].s.w[0][1] = s[3].g[0];
          { struct L { volatile struct I m; } l = {{1, 2}}, n = l; s[4].last = f(x, &y[0].f) + n.m.a; } }""",
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
    "scan": """
#pragma OPENCL EXTENSION cl_khr_fp64: enable
#define T double
kernel void k(global T*a, local T*l){ l[get_local_id(0)]=a[0]; barrier(CLK_LOCAL_MEM_FENCE); a[1]=l[0]; }""",
    "longdiv": """
        kernel void k(global long*a, global ulong*b){ a[0]=a[1]/a[2]; b[0]=b[1]%b[2]; a[3]=mul_hi(a[0],a[1]); b[1]=clz(b[0]); b[2]=popcount(b[0]); a[4]=abs(a[1]); }""",
    "complexs": """
        typedef union { struct { float x, y; }; struct { float real, imag; }; } cf; cf mul(cf a, cf b){ cf r; r.x=a.x*b.x-a.y*b.y; r.imag=a.real*b.imag+a.imag*b.real; return r; }
        kernel void k(global cf*a){ a[0]=mul(a[1],a[2]); cf z; z.real=1; z.y=0; a[3]=z; }""",
    "nestedanon": """
        typedef struct { int a; union { float f; int i; }; struct { short s, t; } in; } S;
        kernel void k(global S*s){ s[0].f=1; s[0].in.t=s[1].i; S x={1,{2.0f},{3,4}}; s[2]=x; }""",
    "rng": """
        uint4 rng(uint4 s){ s^=s<<13; s^=s>>17; s^=s<<5; return s; } ulong mix(ulong x){ x^=x>>30; x*=0xbf58476d1ce4e5b9ul; return x; }
        kernel void k(global uint4*a, global ulong*b){ a[0]=rng(a[1]); b[0]=mix(b[1]); a[2]=rotate(a[0],(uint4)(3,5,7,9)); a[3]=mul_hi(a[0],a[1]); a[4].x=mad_hi(a[0].x,a[1].x,2u); }""",
    "philox": """
        struct r123array4x32 { uint v[4]; }; typedef struct r123array4x32 ctr_t; ctr_t round_(ctr_t c, uint k){ ctr_t o={{c.v[0]*k, mul_hi(c.v[1],k), c.v[2]^k, c.v[3]}}; return o; }
        kernel void k(global uint*a){ ctr_t c={{}}; c.v[0]=get_global_id(0); for(int i=0;i<10;i++) c=round_(c,a[i]); a[0]=c.v[3]; }""",
    "sel": """
        kernel void k(global float4*a, global int4*m, global uint4*u, global double2*d, global long2*l){ a[0]=select(a[1],a[2],m[0]); a[3]=select(a[1],a[2],u[0]); d[0]=select(d[1],d[2],l[0]); a[4]=select(a[0],a[1],isgreater(a[1],a[2])); m[1]=isnan(a[0])&&isfinite(a[1]); a[5].x=select(a[0].x,a[1].x,1); }""",
    "asf": """
        kernel void k(global float*a, global int*b, global uchar4*c, global double*d){ b[0]=as_int(a[0]); a[1]=as_float(b[1]|0x3f800000); c[0]=as_uchar4(b[2]); d[0]=as_double((long)b[0]<<32); b[3]=as_int(c[1]); a[2]=as_float(0x7f800000); short2 s=as_short2(a[3]); b[4]=s.x; int2 t=as_int2(d[1]); b[5]=t.y; }""",
    "vl": """
        kernel void k(global uchar*img, global float*o, int w){ int x=get_global_id(0), y=get_global_id(1); uchar16 p=vload16(0,img+y*w+x); float16 f=convert_float16(p); o[y*w+x]=dot(f.s0123,f.s4567)+dot(f.lo.hi,f.hi.lo); vstore3(convert_uchar3_sat_rte(f.s012*0.5f),x,img); uint3 q=convert_uint3(vload3(x,img)); o[0]=q.z; }""",
    "lds2d": """
#define TS 16
kernel void k(const int M, const global float* restrict A, global float*C){ local float As[TS][TS+1]; const int r=get_local_id(0), c=get_local_id(1); float acc[4]; for(int w=0;w<4;w++) acc[w]=0.0f; for(int t=0;t<M/TS;t++){ As[c][r]=A[t*TS+r]; barrier(CLK_LOCAL_MEM_FENCE); for(int kk=0;kk<TS;kk++) for(int w=0;w<4;w++) acc[w]+=As[kk][r]*As[c][kk]; barrier(CLK_LOCAL_MEM_FENCE);} for(int w=0;w<4;w++) C[w*M+r]=acc[w]; }""",
    "voltile": """
        kernel void k(volatile local float*s, global float*g){ uint t=get_local_id(0); s[t]=g[t]; barrier(1); if(t<32){ s[t]+=s[t+32]; s[t]+=s[t+16]; } if(t==0) g[0]=s[0]; volatile int n=3; n++; g[1]=n; }""",
    "barr": """
        kernel void k(global int*a){ mem_fence(CLK_LOCAL_MEM_FENCE|CLK_GLOBAL_MEM_FENCE); read_mem_fence(CLK_LOCAL_MEM_FENCE); write_mem_fence(CLK_GLOBAL_MEM_FENCE); barrier(0); a[0]=1; }""",
    "defs": """
#define IDX(x,y) ((y)*W+(x))
#define SWAP(a,b) {float t_=a;a=b;b=t_;}
#define CAT(a,b) a##b
#define STR(x) #x
kernel void CAT(my,kern)(global float*a, const uint W){ float x=a[IDX(1,2)], y=a[0]; SWAP(x,y) a[IDX(get_global_id(0),get_global_id(1))]=x-y; printf(STR(hello) "%d\\n", 3); }""",
    "funcarr": """
        void add(float v[3], float s){ for(int i=0;i<3;i++) v[i]+=s; }
        void sw(int*a,int*b){ int t=*a; *a=*b; *b=t; }
        kernel void k(global float*o){ float v[3]={1,2,3}; add(v,2); int p[2]={1,2}; sw(p,&p[1]); sw(&p[0],p+1); o[0]=v[1]+p[0]; }""",
    "ll": """
        kernel void k(global long*a){ long long_=1L; unsigned long x=1UL<<40; unsigned int y=3U; signed char z=-1; unsigned short w=65535; a[0]=long_+x+y+z+w; unsigned u=4; a[1]=u; long int q=2; unsigned char c='a'; a[2]=q+c; }""",
    "retvec": """
        float2 cmul(float2 a, float2 b){ return (float2)(a.x*b.x-a.y*b.y, a.x*b.y+a.y*b.x); } float2 twiddle(float x){ float c; float s=sincos(x,&c); return (float2)(c,s); }
        kernel void k(global float2*a){ a[0]=cmul(a[1],twiddle(a[2].x)); float2 z=a[0]; z=z.yx*(float2)(-1,1); a[3]=z; a[4]=(float2)(native_cos(z.x),native_sin(z.x)); a[5]=z*=2.0f; }""",
    "dblptr": """
        kernel void k(global float*a){ float m[3][3]; float (*row)[3]=m; row[1][2]=1; float *r[3]; r[0]=m[0]; r[0][1]=2; for(int i=0;i<3;i++) for(int j=0;j<3;j++) m[i][j]=i==j; a[0]=m[1][2]+r[0][1]+(*row)[0]; }""",
    "condexpr": """
        kernel void k(global float*a, int n){ float x = (n & 1) ? a[0] : n > 3 ? 2.0f : -1; int b = (n>1) + (n<3)*2; a[1]= x*b; a[2]= !n; a[3]=n&&x; a[4]=-(n==2); uint u=(n>2)?1u:0; a[5]=u; bool t=n; a[6]=t?1.f:0.f; a[7]=(char)(n>0);}""",
    "constst": """
        typedef struct { float k[9]; int w; } filt; constant filt F={{1,2,1,2,4,2,1,2,1},3}; constant filt G[2]={{{1},3},{{0,1},3}}; constant float4 C4[2]={(float4)(1,2,3,4),(float4)(5)};
        kernel void k(global float*a){ a[0]=F.k[4]+F.w+G[1].k[1]+C4[1].x; constant float*p=F.k; a[1]=p[2]; constant filt*q=&G[0]; a[2]=q->w; }""",
    "loopv": """
        kernel void k(global float4*a, int n){ float4 s=(float4)0; for(int i=0;i<n;++i){ float4 v=a[i]; if(any(isnan(v))) continue; s=fma(v,v,s); } a[0]=s; float m=fmax(fmax(s.x,s.y),fmax(s.z,s.w)); a[1]=(float4)(m,m*m,0,1); float16 w; w.s0=1; w.lo=(float8)(s,s); w.hi=w.lo.s76543210; a[2]=w.sfedc; }""",
    "unnamed": """
        int f(int, float); int f(int a, float b){ return a; }
        kernel void k(global int*a){ a[0]=f(1,2); }""",
    "k_and_r": """
        inline void g(global int*restrict p){ *p=1; }
        static void h(__local int*const p){ p[0]=2; }
        kernel void k(global int*const restrict a, __local int*b){ g(a); h(b); a[1]=*b; }""",
    "incl": """
        kernel void k(global float*restrict a, global const float*const restrict b, const int n){ const int i=get_global_id(0); if(i>=n) return; a[i]=b[i]; }""",
    "postfix_on_one_value": """
        kernel void k(global float4 *a, global float *b, global uchar8 *c, int n) { a[0].xyz = (float4)(b[n]).zyx; b[0] = (float2)(b[1]).y + (float4) (b[2])[n & 3];
        a[1] = (float4)(b[3]).hi.xyxy * (float4)(2).wzyx; c[0] = (uchar8)(c[1].s3).odd.s01230123; }""",
    "underscored_attributes": """
        __attribute__((__noinline__)) int f(int x) { return x + 1; } int g(int x) __attribute__((__noinline__, __pure__)); int g(int x) { return f(x); }
        typedef struct __attribute__((__packed__, __aligned__(sizeof(int) * 2))) { char a; int b; } s; enum { new = 16 };
        kernel void k(global s *a) { int __noinline__ __attribute__((__aligned__(new))) = 3; a[0].b = g(a[0].a) + __noinline__; }""",
}


@pytest.mark.skipif(library() is None, reason=MISSING)
@pytest.mark.parametrize("name", FORMS)
def test_compiles(name: str) -> None:
    for options in ((), ("-cl-std=CL2.0",)):
        program = translate_cuda(parse_program(FORMS[name], options))
        done, text = compile_cuda(program.source, program.options)
        assert done, text[:4000]
        assert text.count(".visible .entry") == len(program.kernels)


def place_of(program: ParsedProgram, name: str) -> int:
    """Where a function's name stands in what the CUDA translation of the program rewrites."""
    again = parse_program(translate_subgrid(program, shared_variables=True, offsets=False).source)
    return next(int(c.location.offset) for c in again.functions() if c.spelling == name)


def test_a_function_is_identified_by_its_place_in_the_text() -> None:
    """The base header declares functions, too, at offsets of its own: one that stands there in the text is another function."""
    text = "int {}helper(int x) {{ return x + 1; }} kernel void k(global int *a, short2 b) {{ a[0] = helper(as_int(b)); }}"
    program = parse_program(text.format(""))
    calls = [c for c in clang.walk(program.tu.cursor) if c.spelling == "as_int" and c.referenced is not None]
    there = int(calls[-1].referenced.canonical.location.offset)
    moved = parse_program(text.format(" " * (there - place_of(program, "helper"))))
    assert place_of(moved, "helper") == there
    assert "helper(as_int(" not in translate_cuda(moved).source.partition("namespace user")[2]
