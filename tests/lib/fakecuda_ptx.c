/* Kernels in PTX, for the driver without a device (see fakecuda.c): an interpreter.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * It knows the instructions that clang makes of lib/core/cuda_sums.cu, and refuses a text with any
 * other.  The threads of a group run one after the other, each as far as to the next barrier.  An
 * access to memory that is not there, or that is not aligned, is an error of the kernel. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakecuda_inside.h"

enum { LINES = 1024, NAMES = 256, NAME = 64, PARAMS = 3, SPACE = 65536, MISALIGNED = 716 };

enum op {
    MOV,
    ADD,
    SUB,
    MUL_LO,
    MUL_HI,
    MUL_WIDE,
    AND,
    OR,
    XOR,
    SHL,
    SHR,
    SELP,
    SETP,
    CVT,
    LD,
    ST,
    BRA,
    BAR,
    RET
};
enum compare { EQ, NE, LT, GT };
enum space { IN_PARAM, IN_GLOBAL, IN_SHARED, IN_CONST };
enum from { IMMEDIATE, REGISTER, TID, CTAID };

struct operand {
    enum from from;
    uint64_t value; /* or the number of the register */
};
struct instruction {
    enum op op;
    int bits; /* of the result, or of what is compared or stored */
    bool is_signed, negated;
    int guard; /* the register of the condition; -1: none */
    enum compare compare;
    enum space space;
    int words; /* of ld */
    struct operand to[2], of[3];
    char label[NAME]; /* of bra */
    int target;
};
struct symbol {
    char name[NAME];
    uint64_t value;
};
struct program {
    struct instruction at[LINES];
    int n, nregisters, nparams;
    struct symbol prefix[8], symbol[16], label[NAMES];
    int nprefixes, nsymbols, nlabels;
    unsigned char constants[SPACE], shared[SPACE];
    size_t constant_bytes, shared_bytes;
};
struct thread {
    int at;
    bool done;
    uint64_t *registers;
};

unsigned long long fakecuda_launches;

/* ---- the text ------------------------------------------------------------------------------ */

static struct symbol *find(struct symbol *of, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(of[i].name, name) == 0)
            return &of[i];
    return NULL;
}

static void name_it(struct symbol *of, int *n, int most, const char *name, uint64_t value)
{
    if (*n == most || strlen(name) >= NAME)
        abort();
    (void)snprintf(of[*n].name, NAME, "%s", name);
    of[(*n)++].value = value;
}

static bool read_operand(struct program *p, const char *text, struct operand *o)
{
    char name[NAME];
    unsigned number;
    *o = (struct operand){ .from = IMMEDIATE };
    if (strcmp(text, "%tid.x") == 0 || strcmp(text, "%ctaid.x") == 0) {
        o->from = text[1] == 't' ? TID : CTAID;
    } else if (*text == '%') {
        const struct symbol *s;
        if (sscanf(text, "%63[%a-z]%u", name, &number) != 2
            || !(s = find(p->prefix, p->nprefixes, name)))
            return false;
        o->from = REGISTER;
        o->value = s->value + number;
    } else if (isdigit((unsigned char)*text) || *text == '-') {
        char *end;
        o->value = *text == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
        return *end == '\0';
    } else {
        const struct symbol *s = find(p->symbol, p->nsymbols, text);
        o->value = s ? s->value : 0;
        return s != NULL;
    }
    return true;
}

/* The address [base+offset]: of[0] and of[1]. */
static bool read_address(struct program *p, char *text, struct instruction *i)
{
    char *plus = strchr(text, '+');
    i->of[1] = (struct operand){ .from = IMMEDIATE };
    if (plus) {
        *plus = '\0';
        if (!read_operand(p, plus + 1, &i->of[1]))
            return false;
    }
    return read_operand(p, text, &i->of[0]);
}

/* The parts of a name such as "mul.wide.u32". */
static bool read_name(char *name, struct instruction *i)
{
    static const struct {
        const char *name;
        enum op op;
    } ops[] = { { "mov", MOV }, { "add", ADD }, { "sub", SUB }, { "mul", MUL_LO }, { "and", AND },
        { "or", OR }, { "xor", XOR }, { "shl", SHL }, { "shr", SHR }, { "selp", SELP },
        { "setp", SETP }, { "cvt", CVT }, { "cvta", MOV }, { "ld", LD }, { "st", ST },
        { "bra", BRA }, { "bar", BAR }, { "ret", RET } };
    static const char *const compares[] = { "eq", "ne", "lt", "gt" }, *const spaces[] = { "param",
        "global", "shared", "const" };
    const char *part = strtok(name, ".");
    size_t k = 0;
    while (k < sizeof ops / sizeof ops[0] && strcmp(ops[k].name, part) != 0)
        k++;
    if (k == sizeof ops / sizeof ops[0])
        return false;
    i->op = ops[k].op;
    i->bits = i->op == CVT ? 0 : 64;
    while ((part = strtok(NULL, "."))) {
        int bits = 0;
        char type = '\0', behind = '\0';
        for (int c = 0; c < 4; c++) {
            if (strcmp(part, compares[c]) == 0)
                i->compare = (enum compare)c;
            if (strcmp(part, spaces[c]) == 0)
                i->space = (enum space)c;
        }
        if (strcmp(part, "v2") == 0)
            i->words = 2;
        else if (strcmp(part, "wide") == 0)
            i->op = MUL_WIDE;
        else if (strcmp(part, "hi") == 0)
            i->op = MUL_HI;
        else if (sscanf(part, "%c%d%c", &type, &bits, &behind) == 2 && strchr("sub", type)
                 && (bits == 32 || bits == 64)) {
            if (i->op != CVT || i->bits > 0) /* of cvt the second one: that of the source */
                i->is_signed = type == 's';
            i->bits = i->op == CVT && i->bits > 0 && i->bits < bits ? i->bits : bits;
            i->words += i->words == 0;
        } else if (!strstr("to lo sync uni pred eq ne lt gt param global shared const", part))
            return false;
    }
    return true;
}

static bool read_instruction(struct program *p, char *line)
{
    struct instruction *i = &p->at[p->n];
    char *words[8], *name = strtok(line, " \t;");
    int n = 0;
    if (p->n == LINES)
        return false;
    *i = (struct instruction){ .guard = -1 };
    if (*name == '@') {
        struct operand guard;
        i->negated = name[1] == '!';
        if (!read_operand(p, name + 1 + i->negated, &guard) || guard.from != REGISTER)
            return false;
        i->guard = (int)guard.value;
        name = strtok(NULL, " \t;");
    }
    for (char *w = strtok(NULL, " \t,;{}[]"); w && n < 8; w = strtok(NULL, " \t,;{}[]"))
        words[n++] = w;
    if (!read_name(name, i))
        return false;
    p->n++;
    if (i->op == BAR || i->op == RET)
        return true;
    if (i->op == BRA) {
        (void)snprintf(i->label, NAME, "%s", n == 1 ? words[0] : "");
        return true;
    }
    if (i->op == ST)
        return n == 2 && read_address(p, words[0], i) && read_operand(p, words[1], &i->of[2]);
    for (int w = 0; w < (i->op == LD ? i->words : 1); w++)
        if (w == n || !read_operand(p, words[w], &i->to[w]) || i->to[w].from != REGISTER)
            return false;
    if (i->op == LD)
        return n == i->words + 1 && read_address(p, words[i->words], i);
    for (int w = 1; w < n; w++)
        if (w > 3 || !read_operand(p, words[w], &i->of[w - 1]))
            return false;
    return true;
}

/* .const .align 8 .b8 NAME[BYTES] = {...}; or .shared .align 8 .b8 NAME[BYTES]; */
static bool read_variable(struct program *p, char *line)
{
    char kind[16], name[NAME];
    unsigned align, bytes;
    if (sscanf(line, ".%15s .align %u .b8 %63[^[][%u]", kind, &align, name, &bytes) != 4)
        return false;
    size_t *used = kind[0] == 'c' ? &p->constant_bytes : &p->shared_bytes;
    *used = (*used + align - 1) / align * align;
    if (*used + bytes > SPACE)
        return false;
    name_it(p->symbol, &p->nsymbols, 16, name, *used);
    char *list = strchr(line, '{');
    for (unsigned b = 0; list && b < bytes; b++, list = strchr(list + 1, ','))
        p->constants[*used + b] = (unsigned char)strtoul(list + 1, NULL, 0);
    *used += bytes;
    return true;
}

static bool read_line(struct program *p, char *line)
{
    char name[NAME];
    unsigned count;
    const size_t length = strlen(line);
    if (length == 0 || strchr("(){}", line[0]) || strncmp(line, ".pragma", 7) == 0
        || strncmp(line, ".version", 8) == 0 || strncmp(line, ".target", 7) == 0
        || strncmp(line, ".address_size 64", 16) == 0 || strncmp(line, ".visible", 8) == 0
        || strncmp(line, ".maxntid", 8) == 0)
        return true;
    if (sscanf(line, ".param .%*[us0-9] %63[^, ]", name) == 1) {
        name_it(p->symbol, &p->nsymbols, 16, name, (uint64_t)p->nparams++);
        return p->nparams <= PARAMS;
    }
    if (sscanf(line, ".reg .%*[a-z0-9] %63[%a-z]<%u>", name, &count) == 2) {
        name_it(p->prefix, &p->nprefixes, 8, name, (uint64_t)p->nregisters);
        p->nregisters += (int)count;
        return true;
    }
    if (line[0] == '.')
        return read_variable(p, line);
    if (line[length - 1] == ':') {
        line[length - 1] = '\0';
        name_it(p->label, &p->nlabels, NAMES, line, (uint64_t)p->n);
        return true;
    }
    return read_instruction(p, line);
}

struct program *fakecuda_ptx(const char *text, const char *name)
{
    char entry[NAME + 16];
    struct program *p = calloc(1, sizeof *p);
    char *copy = strdup(text), *rest = copy;
    if (!p || !copy)
        abort();
    (void)snprintf(entry, sizeof entry, ".entry %s(", name);
    bool good = strstr(text, entry) != NULL;
    for (char *line = copy; good && line; line = rest) {
        rest = strchr(line, '\n');
        if (rest)
            *rest++ = '\0';
        good = read_line(p, line);
        if (!good)
            (void)fprintf(stderr, "fakecuda: unknown PTX: %s\n", line);
    }
    for (int i = 0; good && i < p->n; i++) {
        const struct symbol *s = find(p->label, p->nlabels, p->at[i].label);
        good = p->at[i].op != BRA || s;
        p->at[i].target = s ? (int)s->value : 0;
    }
    free(copy);
    if (good)
        return p;
    free(p);
    return NULL;
}

/* ---- a launch ---------------------------------------------------------------------------- */

struct launch {
    struct program *p;
    const struct work *w;
    unsigned group, thread;
    uint64_t *registers;
    CUdeviceptr first; /* of the block of memory that was used last */
    size_t bytes;
    char *real;
    bool spoils; /* the next word that is written has a wrong bit */
};

static uint64_t value_of(const struct launch *l, const struct operand *o)
{
    switch (o->from) {
    case REGISTER:
        return l->registers[o->value];
    case TID:
        return l->thread;
    case CTAID:
        return l->group;
    default:
        return o->value;
    }
}

static char *global(struct launch *l, CUdeviceptr p, size_t bytes)
{
    if (p < l->first || p + bytes > l->first + l->bytes)
        l->real = fakecuda_block(p, &l->first, &l->bytes);
    if (!l->real || p + bytes > l->first + l->bytes) {
        fakecuda_sticky = ILLEGAL_ADDRESS;
        l->bytes = 0;
        return NULL;
    }
    return l->real + (p - l->first);
}

/* The place of an access; NULL: an error of the kernel. */
static void *access_to(struct launch *l, const struct instruction *i)
{
    const uint64_t p = value_of(l, &i->of[0]) + value_of(l, &i->of[1]);
    const size_t bytes = (size_t)i->bits / 8 * (size_t)i->words;
    if (p % bytes != 0) {
        fakecuda_sticky = MISALIGNED;
        return NULL;
    }
    if (i->space == IN_GLOBAL)
        return global(l, p, bytes);
    const size_t all = i->space == IN_SHARED ? l->p->shared_bytes : l->p->constant_bytes;
    if (p + bytes > all) {
        fakecuda_sticky = ILLEGAL_ADDRESS;
        return NULL;
    }
    return (i->space == IN_SHARED ? l->p->shared : l->p->constants) + p;
}

static void load(struct launch *l, const struct instruction *i)
{
    if (i->space == IN_PARAM) {
        const uint64_t all = l->w->at[value_of(l, &i->of[0])];
        l->registers[i->to[0].value] = i->bits == 32 ? (uint32_t)all : all;
        return;
    }
    const char *from = access_to(l, i);
    for (int w = 0; from && w < i->words; w++) {
        uint64_t value = 0;
        memcpy(&value, from + w * i->bits / 8, (size_t)i->bits / 8);
        l->registers[i->to[w].value] = value;
    }
}

static void store(struct launch *l, const struct instruction *i)
{
    uint64_t value = value_of(l, &i->of[2]);
    char *to = access_to(l, i);
    if (i->space == IN_GLOBAL && l->spoils) {
        value ^= 1u << 20;
        l->spoils = false;
    }
    if (to)
        memcpy(to, &value, (size_t)i->bits / 8);
}

static uint64_t cut(const struct instruction *i, uint64_t v)
{
    if (i->bits == 64)
        return v;
    return i->is_signed ? (uint64_t)(int64_t)(int32_t)v : (uint32_t)v;
}

static bool holds(const struct instruction *i, uint64_t a, uint64_t b)
{
    switch (i->compare) {
    case EQ:
        return a == b;
    case NE:
        return a != b;
    case LT:
        return i->is_signed ? (int64_t)a < (int64_t)b : a < b;
    default:
        return i->is_signed ? (int64_t)a > (int64_t)b : a > b;
    }
}

static uint64_t compute(const struct launch *l, const struct instruction *i)
{
    const uint64_t a = cut(i, value_of(l, &i->of[0])), b = cut(i, value_of(l, &i->of[1]));
    switch (i->op) {
    case ADD:
        return a + b;
    case SUB:
        return a - b;
    case MUL_LO:
    case MUL_WIDE:
        return a * b;
    case MUL_HI:
        return (uint64_t)((unsigned __int128)a * b >> 64);
    case AND:
        return a & b;
    case OR:
        return a | b;
    case XOR:
        return a ^ b;
    case SHL:
        return b < (uint64_t)i->bits ? a << b : 0;
    case SHR:
        if (i->is_signed)
            return (uint64_t)((int64_t)a >> (b < (uint64_t)i->bits ? b : (uint64_t)i->bits - 1));
        return b < (uint64_t)i->bits ? a >> b : 0;
    case SELP:
        return value_of(l, &i->of[2]) ? a : b;
    case SETP:
        return holds(i, a, b);
    default:
        return a;
    }
}

/* Run a thread up to the next barrier or to its end. */
static void run_thread(struct launch *l, struct thread *t)
{
    while (fakecuda_sticky == OK) {
        const struct instruction *i = &l->p->at[t->at++];
        if (t->at > l->p->n)
            abort();
        if (i->guard >= 0 && (l->registers[i->guard] == 0) != i->negated)
            continue;
        if (i->op == BRA)
            t->at = i->target;
        else if (i->op == LD)
            load(l, i);
        else if (i->op == ST)
            store(l, i);
        else if (i->op == BAR || i->op == RET) {
            t->done = i->op == RET;
            return;
        } else {
            const uint64_t v = compute(l, i);
            const bool narrow = i->bits == 32 && i->op != MUL_WIDE && i->op != CVT;
            l->registers[i->to[0].value] = narrow ? (uint32_t)v : v;
        }
    }
}

static void run_group(struct launch *l, struct thread *threads, unsigned n)
{
    unsigned left = n;
    for (unsigned t = 0; t < n; t++)
        threads[t] = (struct thread){ .registers = threads[t].registers };
    memset(l->p->shared, 0xa5, sizeof l->p->shared);
    while (left > 0 && fakecuda_sticky == OK)
        for (unsigned t = 0; t < n; t++) {
            if (threads[t].done)
                continue;
            l->thread = t;
            l->registers = threads[t].registers;
            run_thread(l, &threads[t]);
            left -= threads[t].done;
        }
}

void fakecuda_run_ptx(const struct work *w)
{
    struct program *p = w->to;
    struct launch l = { .p = p, .w = w, .spoils = fakecuda_is_wrong() };
    struct thread *threads = calloc(w->threads, sizeof *threads);
    uint64_t *registers = calloc((size_t)w->threads * (size_t)p->nregisters, sizeof *registers);
    if (!threads || !registers)
        abort();
    for (unsigned t = 0; t < w->threads; t++)
        threads[t].registers = registers + (size_t)t * (size_t)p->nregisters;
    for (unsigned g = fakecuda_first_group((unsigned)w->bytes);
         g < w->bytes && fakecuda_sticky == OK; g++) {
        l.group = g;
        run_group(&l, threads, w->threads);
    }
    fakecuda_launches++;
    free(threads);
    free(registers);
}
