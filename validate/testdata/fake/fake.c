// A stand-in for libcudart (-DCUDART) and libnccl (-DNCCL) for machines without GPUs. "Device memory" is malloc, a
// stream is a thread with a queue, communicators are files that processes share, so collectives really move and
// reduce data. Time is virtual: events read a clock that each operation moves by alpha + bytes * factor / bandwidth,
// so nothing here says how fast anything is. Faults come from the environment:
//
//   FAKE_NCCL_FAULT   list of KIND:WHERE:RANK[:ARG], comma-separated; RANK is the world rank or *
//     KIND   hang, code (returns ARG), async (asynchronous error ARG), kill (SIGKILL itself), stop (SIGSTOP itself),
//            wrong (spoils one element)
//     WHERE  init, split, collective, abort, finalize, id
//   FAKE_NCCL_AFTER   faults in collectives start after this many
//   FAKE_NCCL_SLOW    "A-B:F" the pair of world ranks A and B is F times slower
//   FAKE_NCCL_NOISE   F: every third operation takes F times as long
//   FAKE_NCCL_NET     NIC[/GDRDMA] or "socket": what the log says of connections between nodes
//   FAKE_NCCL_VERSION version code, FAKE_NCCL_ALPHA_US, FAKE_NCCL_GBPS; FAKE_NCCL_IGNORE_TERM=1
//   FAKE_CUDA_DEVICES, FAKE_CUDA_NOPEER "i-j", FAKE_CUDA_SAME_UUID=1, FAKE_CUDA_FREE_MB
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct Op { void (*run)(void *arg, double *clock); void *arg; struct Op *next; } Op;
typedef struct Graph { Op *head, *tail; } Graph;
typedef struct Stream {
  void (*enqueue)(struct Stream *, void (*run)(void *, double *), void *arg);
  pthread_mutex_t mu; pthread_cond_t cv;
  Op *head, *tail; int busy; double clock; Graph *capture; pthread_t thread;
} Stream;

static int envInt(const char *name, int def) { const char *v = getenv(name); return v && *v ? atoi(v) : def; }

#ifdef CUDART
typedef struct { double at; atomic_int done; } Event;

static void *streamMain(void *p) {
  Stream *s = p;
  pthread_mutex_lock(&s->mu);
  for (;;) {
    while (!s->head) pthread_cond_wait(&s->cv, &s->mu);
    Op *op = s->head;
    s->head = op->next;
    if (!s->head) s->tail = NULL;
    s->busy = 1;
    pthread_mutex_unlock(&s->mu);
    op->run(op->arg, &s->clock);
    free(op);
    pthread_mutex_lock(&s->mu);
    s->busy = 0;
    pthread_cond_broadcast(&s->cv);
  }
}

static void enqueue(Stream *s, void (*run)(void *, double *), void *arg) {
  Op *op = calloc(1, sizeof *op);
  op->run = run; op->arg = arg;
  if (s->capture) {
    if (s->capture->tail) s->capture->tail->next = op; else s->capture->head = op;
    s->capture->tail = op;
    return;
  }
  pthread_mutex_lock(&s->mu);
  if (s->tail) s->tail->next = op; else s->head = op;
  s->tail = op;
  pthread_cond_broadcast(&s->cv);
  pthread_mutex_unlock(&s->mu);
}

static int devices(void) { return envInt("FAKE_CUDA_DEVICES", 8); }
static __thread int current;

int cudaGetDeviceCount(int *n) { *n = devices(); return *n ? 0 : 100; }
int cudaSetDevice(int i) { if (i < 0 || i >= devices()) return 101; current = i; return 0; }
int cudaDeviceGetPCIBusId(char *b, int len, int i) { snprintf(b, len, "0000:%02X:00.0", 16 + i); return 0; }
int cudaGetDeviceProperties_v2(char *p, int i) {
  if (i < 0 || i >= devices()) return 101;
  snprintf(p, 256, "Stand-in GPU");
  memset(p + 256, 0xfa, 16);
  p[271] = envInt("FAKE_CUDA_SAME_UUID", 0) ? 0 : i;
  return 0;
}
int cudaDeviceCanAccessPeer(int *ok, int i, int j) {
  int a = -1, b = -1;
  if (getenv("FAKE_CUDA_NOPEER")) sscanf(getenv("FAKE_CUDA_NOPEER"), "%d-%d", &a, &b);
  *ok = !((i == a && j == b) || (i == b && j == a));
  return 0;
}
int cudaMemGetInfo(size_t *f, size_t *t) { *t = 8ull << 30; *f = (size_t)envInt("FAKE_CUDA_FREE_MB", 8000) << 20; return 0; }
int cudaDeviceReset(void) { return 0; }
int cudaMalloc(void **p, size_t n) { *p = calloc(1, n ? n : 1); return *p ? 0 : 2; }
int cudaFree(void *p) { free(p); return 0; }
int cudaMemcpy(void *d, const void *s, size_t n, int kind) { memcpy(d, s, n); return 0; }
int cudaMemset(void *d, int v, size_t n) { memset(d, v, n); return 0; }
int cudaStreamCreateWithFlags(Stream **s, unsigned flags) {
  *s = calloc(1, sizeof **s);
  (*s)->enqueue = enqueue;
  pthread_mutex_init(&(*s)->mu, NULL);
  pthread_cond_init(&(*s)->cv, NULL);
  return pthread_create(&(*s)->thread, NULL, streamMain, *s);
}
int cudaStreamDestroy(Stream *s) { return 0; }
int cudaStreamQuery(Stream *s) {
  pthread_mutex_lock(&s->mu);
  int pending = s->head || s->busy;
  pthread_mutex_unlock(&s->mu);
  if (pending) sched_yield();
  return pending ? 600 : 0;
}
int cudaStreamSynchronize(Stream *s) { if (!s) return 0; while (cudaStreamQuery(s)) usleep(20); return 0; }
int cudaEventCreate(Event **e) { *e = calloc(1, sizeof **e); return 0; }
int cudaEventDestroy(Event *e) { return 0; }
static void stamp(void *p, double *clock) { Event *e = p; e->at = *clock; e->done = 1; }
int cudaEventRecord(Event *e, Stream *s) { e->done = 0; enqueue(s, stamp, e); return 0; }
int cudaEventQuery(Event *e) { return e->done ? 0 : 600; }
int cudaEventElapsedTime(float *ms, Event *a, Event *b) {
  if (!a->done || !b->done) return 600;
  *ms = (b->at - a->at) / 1e3;
  return 0;
}
int cudaStreamBeginCapture(Stream *s, int mode) { if (s->capture) return 901; s->capture = calloc(1, sizeof(Graph)); return 0; }
int cudaStreamEndCapture(Stream *s, Graph **g) { *g = s->capture; s->capture = NULL; return *g ? 0 : 901; }
int cudaGraphInstantiate(Graph **exec, Graph *g, void *a, void *b, size_t c) { *exec = calloc(1, sizeof **exec); **exec = *g; return 0; }
int cudaGraphLaunch(Graph *g, Stream *s) { for (Op *o = g->head; o; o = o->next) enqueue(s, o->run, o->arg); return 0; }
int cudaGraphExecDestroy(Graph *g) { return 0; }
int cudaGraphDestroy(Graph *g) { return 0; }
const char *cudaGetErrorString(int e) {
  return e == 100 ? "no CUDA-capable device is detected" : e == 101 ? "invalid device ordinal" : e == 2 ? "out of memory" : "stand-in error";
}
int cudaRuntimeGetVersion(int *v) { *v = envInt("FAKE_CUDA_RUNTIME", 13000); return 0; }
int cudaDriverGetVersion(int *v) { *v = envInt("FAKE_CUDA_DRIVER", 13000); return 0; }
#endif

#ifdef NCCL
enum { MAXR = 64, SLOT = 256 << 10, BOX = 64 << 10 };
typedef struct { atomic_int full; char data[BOX]; } Box;
typedef struct {
  atomic_int attached, arrived, gen, aborted;
  int color[MAXR], key[MAXR], world[MAXR];
} Head;
typedef struct Comm {
  Head *h; char *slots; Box *boxes;
  int n, rank, seq, world[MAXR];
  char id[96];
  atomic_int state, async;
} Comm;
typedef struct { char internal[128]; } Id;
typedef struct { size_t size; unsigned magic, version; int blocking; } Config;

static int worldRank = -1;
static atomic_long issued;

// fault returns the argument of the first matching fault, or -1.
static int fault(const char *kind, const char *where, int rank) {
  const char *v = getenv("FAKE_NCCL_FAULT");
  if (!v) return -1;
  char buf[512], *save, *tok;
  snprintf(buf, sizeof buf, "%s", v);
  for (tok = strtok_r(buf, ",", &save); tok; tok = strtok_r(NULL, ",", &save)) {
    char k[16] = "", w[16] = "", r[16] = "";
    int arg = 0;
    if (sscanf(tok, "%15[^:]:%15[^:]:%15[^:]:%d", k, w, r, &arg) < 3) continue;
    if (strcmp(k, kind) || strcmp(w, where) || (strcmp(r, "*") && atoi(r) != rank)) continue;
    if (!strcmp(where, "collective") && issued <= envInt("FAKE_NCCL_AFTER", 0)) continue;
    return arg;
  }
  return -1;
}

static int faults(const char *where) {
  if (fault("kill", where, worldRank) >= 0) kill(getpid(), SIGKILL);
  if (fault("stop", where, worldRank) >= 0) kill(getpid(), SIGSTOP);
  while (fault("hang", where, worldRank) >= 0) usleep(10000);
  int c = fault("code", where, worldRank);
  return c > 0 ? c : 0;
}

// pause waits for a change of *word, at most a millisecond.
static void pauseOn(atomic_int *word, int old, int tries) {
  if (tries < 20) { sched_yield(); return; }
  struct timespec ts = {0, 1000000};
  syscall(SYS_futex, word, FUTEX_WAIT, old, &ts, NULL, 0);
}

static void wake(atomic_int *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1 << 20, NULL, NULL, 0); }

// barrier returns nonzero when the communicator was aborted.
static int barrier(Comm *c) {
  int gen = c->h->gen;
  if (atomic_fetch_add(&c->h->arrived, 1) + 1 == c->n) {
    c->h->arrived = 0;
    c->h->gen = gen + 1;
    wake(&c->h->gen);
  }
  for (int i = 0; c->h->gen == gen; i++) {
    if (c->h->aborted) return 1;
    pauseOn(&c->h->gen, gen, i);
  }
  return 0;
}

static int attach(Comm *c) {
  char path[256];
  const char *dir = getenv("FAKE_NCCL_DIR");
  snprintf(path, sizeof path, "%s/nccl-fake-%s", dir ? dir : "/tmp", c->id);
  size_t size = sizeof(Head) + (size_t)c->n * SLOT + (size_t)c->n * c->n * sizeof(Box);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, size)) return 2;
  char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED) return 2;
  c->h = (Head *)p;
  c->slots = p + sizeof(Head);
  c->boxes = (Box *)(c->slots + (size_t)c->n * SLOT);
  c->h->world[c->rank] = worldRank;
  atomic_fetch_add(&c->h->attached, 1);
  for (int i = 0; c->h->attached < c->n; i++) {
    if (c->h->aborted) return 3;
    pauseOn(&c->h->attached, c->h->attached, i);
  }
  wake(&c->h->attached);
  memcpy(c->world, c->h->world, sizeof c->world);
  unlink(path);
  return 0;
}

static void logLine(const char *fmt, ...) {
  const char *level = getenv("NCCL_DEBUG"), *file = getenv("NCCL_DEBUG_FILE");
  if (!level || strcmp(level, "INFO") || !file) return;
  FILE *f = fopen(file, "a");
  if (!f) return;
  __builtin_va_list ap;
  __builtin_va_start(ap, fmt);
  fprintf(f, "vm:%d:%d [%d] NCCL INFO ", getpid(), getpid(), worldRank);
  vfprintf(f, fmt, ap);
  __builtin_va_end(ap);
  fclose(f);
}

static void *initMain(void *p) {
  Comm *c = p;
  int code = faults("init");
  if (!code) code = attach(c);
  if (!code)
{
    const char *net = getenv("FAKE_NCCL_NET");  // "mlx5_0/GDRDMA": what the log says of connections between nodes
    char nic[33] = "", gdr[17] = "";
    if (net && sscanf(net, "%32[^/]/%16s", nic, gdr) >= 1 && strcmp(nic, "socket"))
      logLine("NET/IB : Using [0]%s:1/IB [RO]; OOB eth0:10.0.0.1<0>\n", nic),
      logLine("Channel 00/0 : %d[0] -> %d[0] [send] via NET/IB/0%s%s\n", c->rank, (c->rank + 1) % c->n, *gdr ? "/" : "", gdr);
    else if (net)
      logLine("Channel 00/0 : %d[0] -> %d[0] [send] via NET/Socket/0\n", c->rank, (c->rank + 1) % c->n);
    logLine("comm %p rank %d nRanks %d nNodes 1 localRanks %d localRank %d MNNVL 0\n", (void *)c, c->rank, c->n, c->n, c->rank);
  }
  c->state = code;
  return NULL;
}

int ncclGetVersion(int *v) { *v = envInt("FAKE_NCCL_VERSION", 22809); return 0; }
int ncclGetUniqueId(Id *id) {
  int c = faults("id");
  if (c) return c;
  unsigned char r[16];
  if (getentropy(r, sizeof r)) return 2;
  memset(id, 0, sizeof *id);
  for (int i = 0; i < 16; i++) sprintf(id->internal + 2 * i, "%02x", r[i]);
  return 0;
}
int ncclCommInitRankConfig(Comm **out, int n, Id id, int rank, Config *cfg) {
  if (cfg->magic != 0xcafebeef || cfg->size < 24 || cfg->size > 4096 || cfg->version < 21400) return 4;
  if (n < 1 || n > MAXR || rank < 0 || rank >= n) return 4;
  if (envInt("FAKE_NCCL_IGNORE_TERM", 0)) signal(SIGTERM, SIG_IGN);
  Comm *c = calloc(1, sizeof *c);
  worldRank = rank;
  c->n = n; c->rank = rank; c->state = 7;
  snprintf(c->id, sizeof c->id, "%.32s", id.internal);
  *out = c;
  pthread_t t;
  pthread_create(&t, NULL, initMain, c);
  if (cfg->blocking) { pthread_join(t, NULL); return c->state; }
  return 7;
}
#ifndef NO_SPLIT
int ncclCommSplit(Comm *c, int color, int key, Comm **out, void *cfg) {
  int code = faults("split");
  if (code) return code;
  c->h->color[c->rank] = color;
  c->h->key[c->rank] = key;
  if (barrier(c)) return 6;
  *out = NULL;
  if (color >= 0) {
    Comm *k = calloc(1, sizeof *k);
    for (int r = 0; r < c->n; r++) {
      if (c->h->color[r] != color) continue;
      k->n++;
      if (c->h->key[r] < key || (c->h->key[r] == key && r < c->rank)) k->rank++;
    }
    snprintf(k->id, sizeof k->id, "%.60s-%d-%d", c->id, c->seq, color);
    k->state = attach(k);
    *out = k;
  }
  c->seq++;
  return barrier(c) ? 6 : 0;
}
#endif
int ncclCommGetAsyncError(Comm *c, int *e) {
  int a = fault("async", "collective", worldRank);
  *e = c->state ? c->state : a > 0 ? a : c->async;
  return 0;
}
int ncclCommFinalize(Comm *c) { return faults("finalize"); }
int ncclCommDestroy(Comm *c) { return 0; }
int ncclCommAbort(Comm *c) {
  int code = faults("abort");
  if (c->h) c->h->aborted = 1;
  return code;
}
const char *ncclGetErrorString(int r) {
  static const char *t[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument",
                            "invalid usage", "remote process exited or there was a network error", "in progress", "timeout"};
  return r >= 0 && r < 9 ? t[r] : "unknown result code";
}
const char *ncclGetLastError(Comm *c) { return ""; }
void ncclResetDebugInit(void) {}

// --- operations ---
enum { ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, REDUCE, P2P };
typedef struct { int send, peer; char *buf; size_t bytes, off; Comm *c; } Xfer;
typedef struct { int kind, type, root, n; size_t count; char *send, *recv; Comm *c; Xfer *x; } Job;

static size_t width(int t) { return t <= 1 || t >= 10 ? 1 : t == 6 || t == 9 ? 2 : 4; }
static float half(uint16_t h) {
  int e = (h >> 10) & 31, m = h & 1023;
  float v = e ? (1 + m / 1024.f) : m / 1024.f;
  for (int i = e ? e : 1; i < 15; i++) v /= 2;
  for (int i = 15; i < e; i++) v *= 2;
  return h >> 15 ? -v : v;
}
static float get(const char *p, size_t i, int t) {
  if (t == 7) return ((const float *)p)[i];
  if (t == 6) return half(((const uint16_t *)p)[i]);
  if (t == 9) { uint32_t u = (uint32_t)((const uint16_t *)p)[i] << 16; float f; memcpy(&f, &u, 4); return f; }
  if (t == 0) return ((const int8_t *)p)[i];
  if (t == 1) return ((const uint8_t *)p)[i];
  uint8_t b = p[i];
  int man = t == 10 ? 3 : 2, bias = t == 10 ? 7 : 15, e = (b & 127) >> man, m = b & ((1 << man) - 1);
  float v = e ? 1 + m / (float)(1 << man) : m / (float)(1 << man);
  int x = (e ? e : 1) - bias;
  for (; x > 0; x--) v *= 2;
  for (; x < 0; x++) v /= 2;
  return v;
}
// put stores a small whole number; that is all that a verification sums.
static void put(char *p, size_t i, int t, float f) {
  if (t == 7) { ((float *)p)[i] = f; return; }
  if (t == 0 || t == 1) { p[i] = (char)(int)f; return; }
  uint32_t u; memcpy(&u, &f, 4);
  if (t == 9) { ((uint16_t *)p)[i] = u >> 16; return; }
  int man = t == 6 ? 10 : t == 10 ? 3 : 2, bias = t == 6 ? 15 : t == 10 ? 7 : 15, e = (int)((u >> 23) & 255) - 127 + bias;
  uint32_t v = f == 0 ? 0 : ((uint32_t)e << man) | ((u >> (23 - man)) & ((1u << man) - 1));
  if (width(t) == 2) ((uint16_t *)p)[i] = v; else p[i] = v;
}

static double cost(Comm *c, int kind, size_t bytes, int peer) {
  double bw = getenv("FAKE_NCCL_GBPS") ? atof(getenv("FAKE_NCCL_GBPS")) : 100, us = getenv("FAKE_NCCL_ALPHA_US") ? atof(getenv("FAKE_NCCL_ALPHA_US")) : 10;
  double u = (c->n - 1) / (double)c->n, f = kind == ALLREDUCE ? 2 * u : kind == ALLGATHER || kind == REDUCESCATTER ? u : 1;
  us += bytes * f / (bw * 1e3);
  int a, b; double slow;
  if (getenv("FAKE_NCCL_SLOW") && sscanf(getenv("FAKE_NCCL_SLOW"), "%d-%d:%lf", &a, &b, &slow) == 3) {
    int ha = 0, hb = 0;
    for (int r = 0; r < c->n; r++) {
      if (peer >= 0 && r != c->rank && r != peer) continue;
      ha |= c->world[r] == a; hb |= c->world[r] == b;
    }
    if (ha && hb) us *= slow;
  }
  static atomic_int turn;
  if (getenv("FAKE_NCCL_NOISE") && (turn++ / 7) % 3 == 0) us *= atof(getenv("FAKE_NCCL_NOISE"));
  return us;
}

static void runP2P(Job *j, double *clock) {
  double us = 0;
  int left = j->n;
  for (int i = 0; i < j->n; i++) j->x[i].off = 0;
  for (int spin = 0; left; spin++) {
    left = 0;
    for (int i = 0; i < j->n; i++) {
      Xfer *x = &j->x[i];
      if (x->off >= x->bytes) continue;
      Comm *c = x->c;
      Box *b = &c->boxes[x->send ? c->rank * c->n + x->peer : x->peer * c->n + c->rank];
      size_t k = x->bytes - x->off < BOX ? x->bytes - x->off : BOX;
      if (b->full == !x->send) {
        if (x->send) memcpy(b->data, x->buf + x->off, k); else memcpy(x->buf + x->off, b->data, k);
        x->off += k;
        b->full = x->send;
        wake(&b->full);
        spin = 0;
      }
      if (x->off < x->bytes) { left++; if (c->h->aborted) return; }
    }
    if (left && spin > 20) usleep(50); else if (left) sched_yield();
  }
  size_t out = 0, in = 0;
  for (int i = 0; i < j->n; i++) {
    double t = cost(j->x[i].c, P2P, 0, j->x[i].peer);
    if (t > us) us = t;
    if (j->x[i].peer == j->x[i].c->rank) continue;
    if (j->x[i].send) out += j->x[i].bytes; else in += j->x[i].bytes;
  }
  if (j->n) { // the slower direction decides; a slow pair slows the whole group
    double t = 0;
    size_t m = out > in ? out : in;
    for (int i = 0; i < j->n; i++) {
      double v = cost(j->x[i].c, P2P, m, j->x[i].peer);
      if (v > t) t = v;
    }
    us = t;
  }
  *clock += us;
}

static void runJob(void *p, double *clock) {
  Job *j = p;
  atomic_fetch_add(&issued, 1);
  if (fault("kill", "collective", worldRank) >= 0) kill(getpid(), SIGKILL);
  if (fault("stop", "collective", worldRank) >= 0) kill(getpid(), SIGSTOP);
  while (fault("hang", "collective", worldRank) >= 0) {
    if (j->c && j->c->h->aborted) return;
    usleep(5000);
  }
  if (j->kind == P2P) {
    runP2P(j, clock);
    for (int i = 0; i < j->n; i++)
      if (!j->x[i].send && j->x[i].bytes > 3 && fault("wrong", "collective", worldRank) >= 0) j->x[i].buf[j->x[i].bytes / 2] ^= 0x55;
    return;
  }
  Comm *c = j->c;
  size_t w = width(j->type), per = SLOT / w;
  int wide = j->kind == REDUCESCATTER;
  if (wide) per /= c->n;
  for (size_t at = 0; at < j->count; at += per) {
    size_t k = j->count - at < per ? j->count - at : per;
    char *mine = c->slots + (size_t)c->rank * SLOT;
    if (wide)
      for (int b = 0; b < c->n; b++) memcpy(mine + b * k * w, j->send + (b * j->count + at) * w, k * w);
    else if (j->kind != BROADCAST || c->rank == j->root)
      memcpy(mine, j->send + at * w, k * w);
    if (barrier(c)) return;
    if (j->kind == ALLGATHER)
      for (int r = 0; r < c->n; r++) memcpy(j->recv + (r * j->count + at) * w, c->slots + (size_t)r * SLOT, k * w);
    else if (j->kind == BROADCAST)
      memcpy(j->recv + at * w, c->slots + (size_t)j->root * SLOT, k * w);
    else if (j->kind != REDUCE || c->rank == j->root)
      for (size_t i = 0; i < k; i++) {
        float s = 0;
        for (int r = 0; r < c->n; r++) s += get(c->slots + (size_t)r * SLOT, (wide ? c->rank * k : 0) + i, j->type);
        put(j->recv, at + i, j->type, s);
      }
    if (barrier(c)) return;
  }
  if (fault("wrong", "collective", worldRank) >= 0 && j->count) j->recv[j->count / 2 * w + w - 1] ^= 0x41;
  size_t bytes = j->count * w * (j->kind == ALLGATHER || wide ? c->n : 1);
  *clock += cost(c, j->kind, bytes, -1);
}

static __thread int depth;
static __thread Job *group;
static __thread Stream *groupStream;

static int submit(int kind, const char *name, const void *s, void *r, size_t count, int type, int root, Comm *c, Stream *st) {
  int code = fault("code", "collective", worldRank);
  if (code > 0) return code;
  Job *j = calloc(1, sizeof *j);
  *j = (Job){.kind = kind, .type = type, .root = root, .count = count, .send = (char *)s, .recv = r, .c = c};
  if (c->rank == 0)
    logLine("%s: %zu Bytes -> Algo RING proto %s channel{Lo..Hi}={0..23}\n", name, count * width(type) * (kind == ALLGATHER || kind == REDUCESCATTER ? c->n : 1), count > 65536 ? "SIMPLE" : "LL");
  st->enqueue(st, runJob, j);
  return 0;
}
int ncclAllReduce(const void *s, void *r, size_t n, int t, int op, Comm *c, Stream *st) { return submit(ALLREDUCE, "AllReduce", s, r, n, t, 0, c, st); }
int ncclAllGather(const void *s, void *r, size_t n, int t, Comm *c, Stream *st) { return submit(ALLGATHER, "AllGather", s, r, n, t, 0, c, st); }
int ncclReduceScatter(const void *s, void *r, size_t n, int t, int op, Comm *c, Stream *st) { return submit(REDUCESCATTER, "ReduceScatter", s, r, n, t, 0, c, st); }
int ncclBroadcast(const void *s, void *r, size_t n, int t, int root, Comm *c, Stream *st) { return submit(BROADCAST, "Broadcast", s, r, n, t, root, c, st); }
int ncclReduce(const void *s, void *r, size_t n, int t, int op, int root, Comm *c, Stream *st) { return submit(REDUCE, "Reduce", s, r, n, t, root, c, st); }

int ncclGroupStart(void) { depth++; return 0; }
int ncclGroupEnd(void) {
  if (--depth) return 0;
  if (group) { group->c = group->x[0].c; groupStream->enqueue(groupStream, runJob, group); }
  group = NULL;
  return 0;
}
static int p2p(int send, char *buf, size_t n, int t, int peer, Comm *c, Stream *st) {
  int code = fault("code", "collective", worldRank);
  if (code > 0) return code;
  if (peer < 0 || peer >= c->n) return 4;
  if (!depth) { ncclGroupStart(); p2p(send, buf, n, t, peer, c, st); return ncclGroupEnd(); }
  if (!group) { group = calloc(1, sizeof *group); group->kind = P2P; group->x = calloc(4 * MAXR, sizeof(Xfer)); groupStream = st; }
  group->x[group->n++] = (Xfer){.send = send, .peer = peer, .buf = buf, .bytes = n * width(t), .c = c};
  return 0;
}
int ncclSend(const void *b, size_t n, int t, int peer, Comm *c, Stream *st) { return p2p(1, (char *)b, n, t, peer, c, st); }
int ncclRecv(void *b, size_t n, int t, int peer, Comm *c, Stream *st) { return p2p(0, b, n, t, peer, c, st); }
#ifndef NO_ALLTOALL
int ncclAlltoAll(const void *s, void *r, size_t n, int t, Comm *c, Stream *st) {
  ncclGroupStart();
  for (int p = 0; p < c->n; p++) {
    int code = p2p(1, (char *)s + p * n * width(t), n, t, p, c, st);
    if (!code) code = p2p(0, (char *)r + p * n * width(t), n, t, p, c, st);
    if (code) { depth--; group = NULL; return code; }
  }
  return ncclGroupEnd();
}
#endif
#endif
