/* HDF5 sets: what is written is read back bit by bit, by us and by plain HDF5; what is
 * missing, foreign or in the way is seen.  t_h5_faults.c is about failures and damage.
 *
 * SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <math.h>

#include "store/h5/h5_offline.h"
#include "t_h5.h"

/* ---- Round trip ---------------------------------------------------------------------- */

/* Whether a test comes a second time, with compression, where each takes long: packed_is_packed and
 * packed_through_h5repack write and read compressed data then. */
static bool is_again(void)
{
    return deflate && getenv("FTKIT_TEST_FEW");
}

static void round_trip(void **state)
{
    (void)state;
    const char *few = getenv("FTKIT_TEST_FEW"); /* sets, where each takes long */
    const uint64_t last = few ? strtoull(few, NULL, 10) : 12;
    char want[64] = "";
    if (is_again())
        skip();
    CHECK_RC(FTKIT_OK, write_set(1));
    int before = handles();
    for (uint64_t set = 2; set <= last; set++) {
        extra_bytes = set % 3 == 0 ? 0 : 100000 * (size_t)set + (size_t)set;
        CHECK_RC(FTKIT_OK, write_set(set));
        CHECK_RC(FTKIT_OK, verify_set(set));
    }
    assert_int_equal(handles(), before);
    for (uint64_t set = last; set > 0; set--) {
        const size_t k = strlen(want);
        snprintf(want + k, sizeof want - k, "%s%" PRIu64, k ? " " : "", set);
    }
    assert_string_equal(listed(), want);
    CHECK_RC(FTKIT_ERR_EXISTS, write_set(2));
    CHECK_RC(FTKIT_ERR_NOT_FOUND, verify_set(last + 1));
}

/* The same bytes make the same file. */
static void parts_are_reproducible(void **state)
{
    (void)state;
    struct ftk_manifest_part p[2] = { 0 };
    char *text[2];
    size_t bytes[2];
    if (is_again())
        skip();
    for (int i = 0; i < 2; i++) {
        CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
        CHECK_RC(FTKIT_OK, write_part(1, 0, &p[i]));
        text[i] = read_file(path_of(1, "part-00000.h5"), &bytes[i]);
    }
    assert_memory_equal(&p[0], &p[1], sizeof p[0]);
    assert_int_equal(p[0].file_bytes, bytes[0]);
    assert_int_equal(p[0].nranks, 2);
    assert_memory_equal(text[0], text[1], bytes[0]);
    free(text[0]);
    free(text[1]);
}

/* Layout and filters of a dataset in part 0; bytes in the file. */
static hsize_t stored(uint64_t set, const char *name, H5D_layout_t *layout, int *filters)
{
    hid_t file = H5Fopen(path_of(set, "part-00000.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t ds = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(ds >= 0);
    hid_t dcpl = H5Dget_create_plist(ds);
    *layout = H5Pget_layout(dcpl);
    *filters = H5Pget_nfilters(dcpl);
    hsize_t bytes = H5Dget_storage_size(ds);
    H5Pclose(dcpl);
    H5Dclose(ds);
    H5Fclose(file);
    return bytes;
}

/* Read a rank of part 0, whose file has changed since. */
static int read_changed(uint64_t set, int rank)
{
    struct ftk_manifest m = make_manifest(set);
    struct stat st;
    void *seg = NULL, *want = make_segment(set, (uint32_t)rank);
    size_t bytes = 0;
    assert_int_equal(stat(path_of(set, "part-00000.h5"), &st), 0);
    m.parts[0].file_bytes = (uint64_t)st.st_size;
    int rc = read_segment(dir, &m, rank, &seg, &bytes);
    if (rc == FTKIT_OK)
        assert_true(bytes == ftk_seg_bytes(want) && memcmp(seg, want, bytes) == 0);
    free(seg);
    free(want);
    ftk_manifest_free(&m);
    return rc;
}

/* What is compressed becomes smaller, many times if it can; what is small, and the head,
 * stay as they are.  More than one chunk, the last one not full. */
static void packed_is_packed(void **state)
{
    (void)state;
    H5D_layout_t layout;
    int filters;
    deflate = true;
    extra_bytes = getenv("FTKIT_TEST_FEW") ? 600000 : 5000000; /* more than a block */
    extra_value = 'x';
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, verify_set(1));
    assert_in_range(stored(1, "rank_00000/extra", &layout, &filters), 1, 50000);
    assert_int_equal(layout, H5D_CHUNKED);
    assert_int_equal(filters, 2);
    assert_int_equal(stored(1, "rank_00000/u1", &layout, &filters), 10 * 8);
    assert_int_equal(layout, H5D_CONTIGUOUS);
    stored(1, "rank_00000/ftkit.head", &layout, &filters);
    assert_int_equal(layout, H5D_CONTIGUOUS);
    /* a file that does not say so is not believed to hold more than its bytes */
    hid_t file = H5Fopen(path_of(1, "part-00000.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true(H5Adelete(file, "ftkit.compress") >= 0 && H5Fclose(file) >= 0);
    CHECK_RC(FTKIT_ERR_FORMAT, read_changed(1, 0));
    assert_true(strstr(ftk_detail_text(), "bytes of data in a file of") != NULL);
}

/* A dataset that is not stored as we do it: with a filter that need not be there, or in a
 * chunk that takes more memory than its data. */
static void strange_storage(void **state)
{
    (void)state;
    for (int strange = 0; strange < 3; strange++) {
        hsize_t n = 4, most = strange == 2 ? H5S_UNLIMITED : n;
        hsize_t chunk = strange == 2 ? 1 << 20 : n;
        int64_t v[4] = { 0 };
        CHECK_RC(FTKIT_OK, write_set(1 + (uint64_t)strange));
        hid_t file =
            H5Fopen(path_of(1 + (uint64_t)strange, "part-00000.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
        hid_t group = H5Gopen2(file, "rank_00000", H5P_DEFAULT);
        hid_t old = H5Dopen2(group, "i64", H5P_DEFAULT);
        hid_t space = H5Screate_simple(1, &n, &most);
        hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
        assert_true(H5Dread(old, H5T_STD_I64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
        assert_true(H5Pset_chunk(dcpl, 1, &chunk) >= 0);
        assert_true(strange != 1 || H5Pset_fletcher32(dcpl) >= 0);
        H5Dclose(old);
        H5Ldelete(group, "i64", H5P_DEFAULT);
        hid_t ds = H5Dcreate2(group, "i64", H5T_STD_I64LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
        assert_true(H5Dwrite(ds, H5T_STD_I64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
        H5Dclose(ds);
        H5Pclose(dcpl);
        H5Sclose(space);
        H5Gclose(group);
        H5Fclose(file);
        CHECK_RC(strange ? FTKIT_ERR_FORMAT : FTKIT_OK, read_changed(1 + (uint64_t)strange, 0));
    }
}

static void arguments(void **state)
{
    (void)state;
    struct ftk_manifest_part p;
    struct ftk_manifest m = make_manifest(1);
    char path[FTK_PATH_MAX], longer[2 * FTK_PATH_MAX];
    void *seg[2] = { make_segment(1, 0), make_segment(1, 0) };
    const void *segs[2] = { seg[0], seg[1] };
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 2));
    CHECK_RC(FTKIT_OK, begin_set(dir, "heat", 1));
    CHECK_RC(FTKIT_ERR_NAME, begin_set(dir, "../x", 1));
    CHECK_RC(FTKIT_ERR_NAME, begin_set(dir, "", 1));
    CHECK_RC(FTKIT_ERR_NAME, ftk_sets_list(dir, "a/b", NULL, NULL));
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    CHECK_RC(FTKIT_ERR_ARG, ftk_sets_dir_path(longer, CONTEXT, path));
    CHECK_RC(FTKIT_ERR_NAME, ftk_sets_dir_path(dir, longer, path));
    CHECK_RC(FTKIT_ERR_ARG, write_segments(dir, CONTEXT, 1, 0, segs, 0, &p));
    CHECK_RC(FTKIT_ERR_ARG, write_segments(dir, CONTEXT, 1, 0, segs, 2, &p)); /* twice */
    CHECK_RC(FTKIT_ERR_ARG, write_segments(dir, CONTEXT, 2, 0, segs, 1, &p));
    CHECK_RC(FTKIT_ERR_ARG, write_segments(dir, "heat", 1, 0, segs, 1, &p));
    ((char *)seg[0])[300] ^= 1; /* not sealed */
    CHECK_RC(FTKIT_ERR_CORRUPT, write_segments(dir, CONTEXT, 1, 0, segs, 1, &p));
    CHECK_RC(FTKIT_ERR_ARG, ftk_h5_commit(dir, 0, &m)); /* parts of 0 ranks */
    CHECK_RC(FTKIT_ERR_ARG, ftk_sets_prune(dir, CONTEXT, RUN, 0));
    CHECK_RC(FTKIT_ERR_ARG, read_segment(dir, &m, NRANKS, &seg[0], NULL));
    CHECK_RC(FTKIT_ERR_ARG, read_segment(dir, &m, -1, &seg[0], NULL));
    assert_string_equal(listed(), "");
    free(seg[0]);
    free(seg[1]);
    ftk_manifest_free(&m);
}

/* Segments that come one after the other; the last one is gone when the next comes. */
struct feed {
    const uint32_t *ranks;
    int at, fail_at;
    void *seg;
};

static int next_of_feed(void *arg, const void **seg)
{
    struct feed *f = arg;
    free(f->seg);
    f->seg = NULL;
    if (f->at == f->fail_at)
        return ftk_fail(FTKIT_ERR_PEER, "no more of them");
    *seg = f->seg = make_segment(1, f->ranks[f->at++]);
    return FTKIT_OK;
}

static void parts_from_a_feed(void **state)
{
    (void)state;
    static const uint32_t rising[] = { 0, 2 }, falling[] = { 2, 0 };
    struct ftk_manifest_part want, have = { .part = 99 };
    struct ftk_part_job part = {
        .dir = dir, .context = CONTEXT, .set = 1, .nsegs = 2, .next = next_of_feed
    };
    char *text[2];
    size_t bytes[2];
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    for (int fail_at = 0; fail_at < 3; fail_at++) {
        struct feed f = { fail_at < 2 ? rising : falling, 0, fail_at, NULL };
        part.arg = &f;
        CHECK_RC(fail_at < 2 ? FTKIT_ERR_PEER : FTKIT_ERR_ARG, ftk_h5_write_job(&part, &have));
        free(f.seg);
        assert_int_equal(have.part, 99);
        assert_false(exists(path_of(1, "part-00000.h5")));
        assert_false(exists(path_of(1, "part-00000.h5.tmp")));
    }
    struct feed f = { rising, 0, -1, NULL };
    part.arg = &f;
    CHECK_RC(FTKIT_OK, ftk_h5_write_job(&part, &have));
    free(f.seg);
    text[0] = read_file(path_of(1, "part-00000.h5"), &bytes[0]);
    CHECK_RC(FTKIT_OK, write_part(1, 0, &want)); /* the same from memory */
    text[1] = read_file(path_of(1, "part-00000.h5"), &bytes[1]);
    assert_memory_equal(&have, &want, sizeof have);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(text[0], text[1], bytes[0]);
    free(text[0]);
    free(text[1]);
}

/* A commit looks at the parts it names. */
static void commit_checks_parts(void **state)
{
    (void)state;
    struct ftk_manifest m = make_manifest(1);
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    CHECK_RC(FTKIT_OK, write_part(1, 0, &m.parts[0]));
    CHECK_RC(FTKIT_OK, write_part(1, 1, &m.parts[1]));
    m.parts[2] = m.parts[1];
    m.parts[2].part = 7;
    CHECK_RC(FTKIT_ERR_NOT_FOUND, ftk_h5_commit(dir, 0, &m));
    CHECK_RC(FTKIT_OK, write_part(1, 2, &m.parts[2]));
    m.parts[2].heads_xxh ^= 1;
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_h5_commit(dir, 0, &m));
    m.parts[2].heads_xxh ^= 1;
    m.parts[1].file_bytes++;
    CHECK_RC(FTKIT_ERR_CORRUPT, ftk_h5_commit(dir, 0, &m));
    m.parts[1].file_bytes--;
    m.run++;
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_commit(dir, 0, &m));
    m.run--;
    assert_string_equal(listed(), "");
    CHECK_RC(FTKIT_OK, ftk_h5_commit(dir, 0, &m));
    assert_string_equal(listed(), "1");
    ftk_manifest_free(&m);
}

/* What the program does with HDF5's errors stays its own. */
static int errors_seen;
static herr_t on_error(hid_t stack, void *arg)
{
    (void)stack;
    (void)arg;
    errors_seen++;
    return 0;
}

static herr_t on_error1(void *arg)
{
    return on_error(0, arg);
}

static void error_handlers_survive(void **state)
{
    (void)state;
    H5E_auto2_t fn;
    H5E_auto1_t fn1;
    void *arg;
    CHECK_RC(FTKIT_OK, write_set(1));
    int fd = open(path_of(1, "part-00000.h5"), O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    close(fd);
    errors_seen = 0;
    assert_true(H5Eset_auto2(H5E_DEFAULT, on_error, &errors_seen) >= 0);
    CHECK_RC(FTKIT_ERR_CORRUPT, verify_set(1));
    assert_true(strstr(ftk_detail_text(), "HDF5") != NULL);
    assert_true(H5Eget_auto2(H5E_DEFAULT, &fn, &arg) >= 0);
    assert_true(fn == on_error && arg == &errors_seen);
    assert_true(H5Eset_auto1(on_error1, &errors_seen) >= 0);
    CHECK_RC(FTKIT_ERR_CORRUPT, verify_set(1));
    assert_true(H5Eget_auto1(&fn1, &arg) >= 0);
    assert_true(fn1 == on_error1 && arg == &errors_seen);
    assert_int_equal(errors_seen, 0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* ---- The master file, with HDF5 alone ------------------------------------------------ */

/* Whether a cell of a global array is held by some rank. */
static bool is_held(const struct region *g, uint64_t index)
{
    uint64_t below = 1;
    for (int d = g->split + 1; d < g->ndims; d++)
        below *= g->global[d];
    uint64_t at = index / below % g->global[g->split];
    for (uint64_t r = 0; r < NRANKS; r++) {
        uint64_t end = g->global[g->split] * (r + 1) / NRANKS;
        if (at < end)
            return at < end - g->hole;
    }
    return false;
}

static void check_global(hid_t file, const struct region *g, const char *name)
{
    hsize_t dims[4];
    hid_t ds = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(ds >= 0);
    hid_t space = H5Dget_space(ds), type = H5Dget_type(ds);
    assert_int_equal(H5Sget_simple_extent_dims(space, dims, NULL), g->ndims);
    assert_int_equal(H5Tget_size(type), g->elem);
    uint64_t cells = 1;
    for (int d = 0; d < g->ndims; d++) {
        assert_int_equal(dims[d], g->global[d]);
        cells *= dims[d];
    }
    char *have = malloc(cells * g->elem + 1), want[64];
    assert_true(H5Dread(ds, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, have) >= 0);
    for (uint64_t c = 0; c < cells; c++) {
        double v; /* the last number of the item, when it has several */
        size_t n = sizeof v < g->elem ? sizeof v : g->elem;
        memcpy(&v, have + (c + 1) * g->elem - n, n);
        put_cell(g, want, cell_value(3, c));
        if (is_held(g, c) ? memcmp(have + c * g->elem, want, g->elem) != 0 : !isnan(v))
            fail_msg("cell %d of %s differs", (int)c, name);
    }
    free(have);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(ds);
}

static void check_master(const char *path)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    for (size_t i = 0; i < COUNT(regions); i++)
        if (regions[i].kind == FTK_KIND_ARRAY) {
            bool taken = strcmp(regions[i].name, "ranks") == 0;
            check_global(file, &regions[i], taken ? "/ftkit.region.ranks" : regions[i].name);
        }
    int32_t v[3];
    uint64_t set = 0;
    char context[64] = "";
    hid_t a = H5Aopen(file, "ftkit.set", H5P_DEFAULT);
    assert_true(H5Aread(a, H5T_NATIVE_UINT64, &set) >= 0 && H5Aclose(a) >= 0);
    a = H5Aopen(file, "ftkit.context", H5P_DEFAULT);
    hid_t type = H5Aget_type(a);
    assert_true(H5Aread(a, type, context) >= 0 && H5Tclose(type) >= 0 && H5Aclose(a) >= 0);
    assert_int_equal(set, 3);
    assert_string_equal(context, CONTEXT);
    hid_t ds = H5Dopen2(file, "/ranks/00003/ftkit.region.ftkit.head", H5P_DEFAULT);
    assert_true(ds >= 0);
    assert_true(H5Dread(ds, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    void *seg = make_segment(3, 3);
    assert_memory_equal(v, ftk_seg_data(seg) + ftk_seg_find(seg, "ftkit.head")->offset, sizeof v);
    free(seg);
    H5Dclose(ds);
    ds = H5Dopen2(file, "/step", H5P_DEFAULT); /* replicated: that of rank 0 */
    assert_true(ds >= 0);
    assert_true(H5Dread(ds, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    seg = make_segment(3, 0);
    assert_memory_equal(v, ftk_seg_data(seg) + ftk_seg_find(seg, "step")->offset, sizeof v[0]);
    free(seg);
    H5Dclose(ds);
    H5Fclose(file);
}

static void master_by_hdf5(void **state)
{
    (void)state;
    char moved[FTK_PATH_MAX];
    if (is_again())
        skip();
    CHECK_RC(FTKIT_OK, write_set(3));
    check_master(path_of(3, "master.h5"));
    snprintf(moved, sizeof moved, "%s/elsewhere", dir);
    assert_int_equal(rename(path_of(3, ""), moved), 0);
    snprintf(moved, sizeof moved, "%s/elsewhere/master.h5", dir);
    check_master(moved);
}

static void master_by_h5dump(void **state)
{
    (void)state;
    char command[2 * FTK_PATH_MAX], line[4096];
    if (is_again())
        skip();
    if (system("command -v h5dump >/dev/null 2>&1") != 0)
        skip();
    CHECK_RC(FTKIT_OK, write_set(3));
    snprintf(command, sizeof command, "cd / && h5dump -y -m %%.17g -d /u3 '%s'",
        path_of(3, "master.h5"));
    FILE *f = popen(command, "r");
    assert_non_null(f);
    bool data = false;
    uint64_t cells = 0;
    while (fgets(line, sizeof line, f)) {
        if (!data || strchr(line, '}')) {
            data = cells == 0 && strstr(line, "DATA {"); /* later ones are attributes */
            continue;
        }
        char *save = NULL;
        for (char *t = strtok_r(line, " ,\n", &save); t; t = strtok_r(NULL, " ,\n", &save), cells++)
            if (strtod(t, NULL) != cell_value(3, cells))
                fail_msg("cell %d is '%s'", (int)cells, t);
    }
    pclose(f);
    assert_int_equal(cells, 6 * 9 * 7);
}

/* h5repack, with and without filters of its own: parts that it has written are read by us,
 * a master by HDF5. */
static void packed_through_h5repack(void **state)
{
    (void)state;
    static const char *const filters[] = { "-f NONE", "-f rank_00002/extra:GZIP=9", "" };
    char command[2 * FTK_PATH_MAX];
    if (system("command -v h5repack >/dev/null 2>&1") != 0)
        skip();
    for (size_t i = getenv("FTKIT_TEST_FEW") ? 1 : 0; i < COUNT(filters); i++) {
        deflate = i != 1;
        extra_bytes = 20000;
        CHECK_RC(FTKIT_OK, write_set(3));
        snprintf(command, sizeof command,
            "cd '%s' && h5repack %s part-00000.h5 new && mv new part-00000.h5 "
            "&& h5repack master.h5 new && mv new master.h5",
            path_of(3, ""), filters[i]);
        assert_int_equal(system(command), 0);
        CHECK_RC(FTKIT_OK, read_changed(3, 0));
        CHECK_RC(FTKIT_OK, read_changed(3, 2));
        check_master(path_of(3, "master.h5"));
        CHECK_RC(FTKIT_OK, ftk_h5_remove(dir, CONTEXT, 3)); /* it may be written again */
    }
}

/* ---- The XDMF file ------------------------------------------------------------------- */

/* The next tag of well-formed XML without comments, its text up to the end of the tag, and
 * the text behind it up to the next one. */
struct xml {
    const char *at;
    char open[8][16]; /* names of the elements we are in */
    int depth;
    char tag[512], text[512];
};

/* Text up to one of the characters, entities replaced. */
static void xml_text(struct xml *x, const char *end, char *out, size_t room)
{
    static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&quot;" };
    while (*x->at && !strchr(end, *x->at)) {
        size_t i = 0;
        assert_true(room-- > 1);
        if (*x->at == '&') {
            while (i < COUNT(names) && strncmp(x->at, names[i], strlen(names[i])) != 0)
                i++;
            assert_true(i < COUNT(names));
            x->at += strlen(names[i]);
            *out++ = "&<>\""[i];
        } else {
            *out++ = *x->at++;
        }
    }
    *out = '\0';
}

static bool xml_next(struct xml *x)
{
    char name[16];
    if (!*x->at)
        return false;
    assert_true(*x->at == '<');
    size_t n = strcspn(++x->at, " />");
    bool end = *x->at == '/';
    if (end)
        n = strcspn(++x->at, ">");
    assert_true(n > 0 && n < sizeof name);
    snprintf(name, sizeof name, "%.*s", (int)n, x->at);
    const char *from = x->at;
    for (bool quoted = false; quoted || *x->at != '>'; x->at++) {
        assert_true(*x->at && *x->at != '<');
        quoted ^= *x->at == '"';
    }
    bool empty = x->at[-1] == '/';
    assert_true((size_t)(x->at - from) < sizeof x->tag);
    snprintf(x->tag, sizeof x->tag, "%s%.*s", end ? "/" : "", (int)(x->at - from), from);
    x->at++;
    if (end)
        assert_true(x->depth > 0 && strcmp(x->open[--x->depth], name) == 0);
    else if (!empty)
        strcpy(x->open[x->depth++], name);
    assert_true(x->depth < 8);
    xml_text(x, "<", x->text, sizeof x->text);
    return true;
}

/* Value of an attribute of the tag, "" when it has none. */
static const char *xml_value(const struct xml *x, const char *name)
{
    static char value[256];
    char begin[32];
    snprintf(begin, sizeof begin, " %s=\"", name);
    struct xml v = { .at = strstr(x->tag, begin) };
    if (!v.at)
        return "";
    v.at += strlen(begin);
    xml_text(&v, "\"", value, sizeof value);
    return value;
}

static void check_item(const struct xml *x, hid_t file, const char *name)
{
    char shape[64] = "";
    hsize_t dims[3];
    assert_true(strncmp(x->text, "master.h5:/", 11) == 0);
    assert_true(strcmp(x->text + 11, name) == 0 || strcmp(x->text + 11, "ftkit.region.ranks") == 0);
    hid_t ds = H5Dopen2(file, x->text + 10, H5P_DEFAULT);
    assert_true(ds >= 0);
    hid_t space = H5Dget_space(ds), type = H5Dget_type(ds);
    int n = H5Sget_simple_extent_ndims(space);
    assert_in_range(n, 1, 3);
    H5Sget_simple_extent_dims(space, dims, NULL);
    for (int d = 0; d < n; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", d ? " " : "",
            (int)dims[d]);
    assert_string_equal(xml_value(x, "Dimensions"), shape);
    assert_int_equal(atoi(xml_value(x, "Precision")), H5Tget_size(type));
    assert_string_equal(
        xml_value(x, "NumberType"), H5Tget_class(type) == H5T_FLOAT ? "Float" : "Int");
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(ds);
}

/* Every array it can show is there once, as it is in master.h5, in the grid of its shape. */
static void xdmf_describes_master(void **state)
{
    (void)state;
    static const char *const want[] = { "u1", "u1h", "u2", "u2n", "u3", "u3n", "50%b", "ranks",
        "holes", "two of four", "a<b> & \"c\"'" };
    static const char first[] = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";
    char text[16384], name[128] = "", shape[64] = "";
    int grids = 0, items = 0;
    CHECK_RC(FTKIT_OK, write_set(3));
    FILE *f = fopen(path_of(3, "master.xdmf"), "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    hid_t file = H5Fopen(path_of(3, "master.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    assert_true(strncmp(text, first, sizeof first - 1) == 0);
    struct xml x = { .at = text + sizeof first - 1 };
    while (xml_next(&x)) {
        if (strncmp(x.tag, "Grid ", 5) == 0)
            grids++;
        if (strncmp(x.tag, "Topology ", 9) == 0)
            snprintf(shape, sizeof shape, "%s", xml_value(&x, "Dimensions"));
        if (strncmp(x.tag, "Attribute ", 10) == 0)
            snprintf(name, sizeof name, "%s", xml_value(&x, "Name"));
        if (strncmp(x.tag, "DataItem ", 9) != 0 || strstr(x.tag, "\"XML\""))
            continue;
        const char *dims = xml_value(&x, "Dimensions");
        assert_true(strncmp(shape, dims, strlen(dims)) == 0);
        assert_true(items < (int)COUNT(want));
        check_item(&x, file, name);
        size_t i = 0;
        while (i < COUNT(want) && strcmp(name, want[i]) != 0)
            i++;
        assert_true(i < COUNT(want));
        items++;
    }
    assert_int_equal(x.depth, 0);
    assert_int_equal(items, COUNT(want));
    assert_int_equal(grids, COUNT(want) - 1); /* two are of 5 x 12 */
    H5Fclose(file);
}

/* Ranks that disagree on an array cannot make one of it. */
static void master_needs_agreement(void **state)
{
    (void)state;
    struct ftk_manifest m = make_manifest(1);
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    CHECK_RC(FTKIT_OK, write_part(1, 0, &m.parts[0]));
    CHECK_RC(FTKIT_OK, write_part(1, 1, &m.parts[1]));
    struct ftk_seg_header *h = make_segment(1, 3);
    struct ftk_seg_region *r = ftk_seg_regions(h);
    while (strcmp(r->name, "u2n") != 0)
        r++;
    r->global[1]++;
    seal(h);
    const void *seg = h;
    CHECK_RC(FTKIT_OK, write_segments(dir, CONTEXT, 1, 7, &seg, 1, &m.parts[2]));
    CHECK_RC(FTKIT_ERR_MISMATCH, ftk_h5_commit(dir, 0, &m));
    assert_true(strstr(ftk_detail_text(), "u2n") != NULL);
    assert_false(exists(path_of(1, "master.h5")));
    assert_false(exists(path_of(1, "master.h5.tmp")));
    free(h);
    ftk_manifest_free(&m);
}

/* ---- Files that are missing, odd, or of others --------------------------------------- */

/* A manifest, or a part, of another set or context. */
static void strangers(void **state)
{
    (void)state;
    struct ftk_manifest m;
    char other[FTK_PATH_MAX], path[FTK_PATH_MAX];
    size_t bytes;
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, write_set(2));
    char *text = read_file(path_of(1, "manifest"), &bytes);
    write_file(path_of(2, "manifest"), text, bytes);
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_open_set(dir, CONTEXT, 2, false, &m));
    free(text);
    assert_string_equal(listed(), "1");
    snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit", dir);
    snprintf(other, sizeof other, "%s/other.ftkit", dir);
    assert_int_equal(rename(path, other), 0);
    CHECK_RC(FTKIT_ERR_FORMAT, ftk_h5_open_set(dir, "other", 1, false, &m));
    assert_int_equal(rename(other, path), 0);
    /* the part of another set with the size of this one */
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 1, true, &m));
    text = read_file(path_of(2, "part-00000.h5"), &bytes);
    assert_int_equal(bytes, m.parts[0].file_bytes);
    write_file(path_of(1, "part-00000.h5"), text, bytes);
    void *seg;
    CHECK_RC(FTKIT_ERR_FORMAT, read_segment(dir, &m, 0, &seg, &bytes));
    CHECK_RC(FTKIT_ERR_FORMAT, verify_set(1));
    free(text);
    ftk_manifest_free(&m);
}

static void missing_and_odd_parts(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX], away[FTK_PATH_MAX];
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, write_set(2));
    struct ftk_manifest m;
    void *seg;
    size_t bytes;
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 2, true, &m));
    snprintf(path, sizeof path, "%s", path_of(2, "part-00007.h5"));
    snprintf(away, sizeof away, "%s/away", dir);
    assert_int_equal(rename(path, away), 0);
    CHECK_RC(FTKIT_ERR_NOT_FOUND, verify_set(2));
    CHECK_RC(FTKIT_ERR_NOT_FOUND, read_segment(dir, &m, 3, &seg, &bytes));
    assert_int_equal(symlink(away, path), 0); /* not a part of ours */
    CHECK_RC(FTKIT_ERR_FORMAT, verify_set(2));
    unlink(path);
    assert_int_equal(mkfifo(path, 0666), 0);
    CHECK_RC(FTKIT_ERR_FORMAT, verify_set(2));
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    CHECK_RC(FTKIT_ERR_FORMAT, verify_set(2));
    rmdir(path);
    assert_string_equal(listed(), "1");
    assert_int_equal(rename(away, path), 0);
    CHECK_RC(FTKIT_OK, verify_set(2));
    assert_int_equal(truncate(path, (off_t)m.parts[2].file_bytes - 1), 0);
    CHECK_RC(FTKIT_ERR_CORRUPT, verify_set(2));
    CHECK_RC(FTKIT_ERR_CORRUPT, read_segment(dir, &m, 3, &seg, &bytes));
    assert_string_equal(listed(), "1");
    CHECK_RC(FTKIT_ERR_EXISTS, write_set(2)); /* what cannot be read is not overwritten */
    CHECK_RC(FTKIT_ERR_CORRUPT, verify_set(2));
    ftk_manifest_free(&m);
}

/* ---- Directories --------------------------------------------------------------------- */

static void foreign_entries(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX], target[FTK_PATH_MAX];
    static const char *const names[] = { "set-12", "set-00000000001", "set-", "set-x",
        "set-0000000009.old", "README", "set-0000000099" };
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, write_set(10));
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit/%s", dir, names[i]);
        write_file(path, "x", 1);
    }
    /* set 8 is a link to a directory with files of our names */
    snprintf(target, sizeof target, "%s/target", dir);
    assert_int_equal(mkdir(target, 0777), 0);
    assert_int_equal(
        symlink(target,
            (snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit/set-0000000008", dir), path)),
        0);
    snprintf(target, sizeof target, "%s/target/manifest", dir);
    write_file(target, "x", 1);
    write_file(path_of(1, "notes.txt"), "x", 1);
    write_file(path_of(1, "part-1.h5"), "x", 1);
    write_file(path_of(1, "part-00003.h5.tmp"), "x", 1);
    assert_string_equal(listed(), "10 1");
    CHECK_RC(FTKIT_ERR_IO, write_set(8));
    CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 1));
    CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 1));
    assert_string_equal(listed(), "10");
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit/%s", dir, names[i]);
        assert_true(exists(path));
    }
    assert_true(exists(target));
    assert_true(exists(path_of(8, "")));
    assert_true(exists(path_of(1, "notes.txt")) && exists(path_of(1, "part-1.h5")));
    assert_false(exists(path_of(1, "part-00003.h5.tmp")));
    assert_false(exists(path_of(1, "part-00000.h5")) || exists(path_of(1, "master.h5")));
    assert_false(exists(path_of(1, "master.xdmf")));
    CHECK_RC(FTKIT_OK, write_set(1)); /* beside the notes */
    CHECK_RC(FTKIT_OK, verify_set(1));
}

static void pruning_keeps(void **state)
{
    (void)state;
    struct ftk_manifest_part p;
    CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 2)); /* nothing there */
    assert_string_equal(listed(), "");
    for (uint64_t set = 1; set <= 5; set++)
        CHECK_RC(FTKIT_OK, write_set(set));
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 6)); /* being written */
    CHECK_RC(FTKIT_OK, write_part(6, 0, &p));
    CHECK_RC(FTKIT_OK, ftk_h5_remove(dir, CONTEXT, 4));
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 4));
    CHECK_RC(FTKIT_OK, write_part(4, 0, &p)); /* unfinished, older than a complete one */
    unlink(path_of(2, "manifest"));           /* it cannot be read: who knows */
    CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 2));
    assert_string_equal(listed(), "5 3");
    assert_false(exists(path_of(1, "")));
    assert_false(exists(path_of(4, "")));
    assert_true(exists(path_of(2, "part-00000.h5")));
    assert_true(exists(path_of(6, "part-00000.h5")));
    CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN + 1, 1)); /* they are not that run's */
    assert_string_equal(listed(), "5 3");
    CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 2));
    CHECK_RC(FTKIT_OK, verify_set(3));
    CHECK_RC(FTKIT_OK, verify_set(5));
    unlink(path_of(5, "manifest"));
    unlink(path_of(3, "manifest"));
    CHECK_RC(FTKIT_OK, ftk_sets_prune(dir, CONTEXT, RUN, 1)); /* no complete one: hands off */
    assert_true(exists(path_of(3, "")) && exists(path_of(5, "")));
}

/* A set is unfinished from its first file to its manifest; a lost manifest is no such thing. */
static void unfinished_is_proven(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX];
    struct ftk_manifest_part p;
    struct ftk_set_entry e;
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 1));
    CHECK_RC(FTKIT_OK, ftk_h5_examine(dir, CONTEXT, 1, &e));
    assert_int_equal(e.state, FTK_SET_INCOMPLETE);
    CHECK_RC(FTKIT_OK, write_part(1, 0, &p));
    CHECK_RC(FTKIT_OK, ftk_h5_examine(dir, CONTEXT, 1, &e));
    assert_int_equal(e.state, FTK_SET_INCOMPLETE);
    assert_int_equal(unlink(path_of(1, "unfinished")), 0); /* as an older ftkit left it */
    CHECK_RC(FTKIT_OK, ftk_h5_examine(dir, CONTEXT, 1, &e));
    assert_int_equal(e.state, FTK_SET_DAMAGED);
    CHECK_RC(FTKIT_ERR_EXISTS, begin_set(dir, CONTEXT, 1));
    snprintf(path, sizeof path, "%s", path_of(1, "part-00000.h5"));
    assert_int_equal(rename(path, path_of(1, "part-00000.h5.tmp")), 0);
    CHECK_RC(FTKIT_OK, ftk_h5_examine(dir, CONTEXT, 1, &e));
    assert_int_equal(e.state, FTK_SET_INCOMPLETE);
    CHECK_RC(FTKIT_OK, write_set(1));
    assert_false(exists(path_of(1, "unfinished")));
    assert_int_equal(unlink(path_of(1, "manifest")), 0);
    CHECK_RC(FTKIT_OK, ftk_h5_examine(dir, CONTEXT, 1, &e));
    assert_int_equal(e.state, FTK_SET_DAMAGED);
    assert_non_null(strstr(e.why, "manifest"));
}

/* The program of a set: in the manifest from version 2 on, in the master, and from the parts. */
static void program_of_a_set(void **state)
{
    (void)state;
    struct ftk_manifest m;
    static const char one[] = "ftkit.manifest = 1\ncontext = " CONTEXT "\nset = 1\n";
    static const char two[] =
        "ftkit.manifest = 2\ncontext = " CONTEXT "\nprogram = heat 2\nset = 2\n";
    size_t bytes;
    CHECK_RC(FTKIT_OK, write_set(1));
    program = "heat 2";
    CHECK_RC(FTKIT_OK, write_set(2));
    program = "";
    char *text = read_file(path_of(1, "manifest"), &bytes);
    assert_memory_equal(text, one, sizeof one - 1);
    free(text);
    text = read_file(path_of(2, "manifest"), &bytes);
    assert_memory_equal(text, two, sizeof two - 1);
    free(text);
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 1, true, &m));
    assert_string_equal(m.program, "");
    ftk_manifest_free(&m);
    CHECK_RC(FTKIT_OK, ftk_h5_open_set(dir, CONTEXT, 2, true, &m));
    assert_string_equal(m.program, "heat 2");
    ftk_manifest_free(&m);
    CHECK_RC(FTKIT_OK, ftk_h5_derive(dir, CONTEXT, 2, NULL, NULL, &m));
    assert_string_equal(m.program, "heat 2");
    ftk_manifest_free(&m);
}

/* Directories in which nothing can be made, or that are gone (the superuser may write
 * where others may not, so permissions do not show it). */
static void bad_directories(void **state)
{
    (void)state;
    char path[FTK_PATH_MAX];
    struct ftk_manifest_part p;
    struct ftk_manifest m = make_manifest(2);
    CHECK_RC(FTKIT_OK, write_set(1));
    CHECK_RC(FTKIT_OK, begin_set(dir, CONTEXT, 2));
    for (uint32_t i = 0; i < NPARTS; i++)
        CHECK_RC(FTKIT_OK, write_part(2, i, &m.parts[i]));
    remove_tree(path_of(2, ""));
    CHECK_RC(FTKIT_ERR_IO, write_part(2, 0, &p));
    CHECK_RC(FTKIT_ERR_IO, ftk_h5_commit(dir, 0, &m));
    write_file(
        (snprintf(path, sizeof path, "%s/" CONTEXT ".ftkit/set-0000000002", dir), path), "x", 1);
    CHECK_RC(FTKIT_ERR_IO, write_set(2));
    CHECK_RC(FTKIT_ERR_IO, write_part(2, 0, &p));
    assert_string_equal(listed(), "1");
    CHECK_RC(FTKIT_OK, verify_set(1));
    remove_tree(dir);
    CHECK_RC(FTKIT_ERR_IO, write_part(3, 0, &p));
    CHECK_RC(FTKIT_ERR_NOT_FOUND, verify_set(1));
    assert_string_equal(listed(), "");
    write_file(dir, "x", 1); /* a file where the directory should be */
    CHECK_RC(FTKIT_ERR_IO, write_set(3));
    CHECK_RC(FTKIT_ERR_IO, write_part(3, 0, &p));
    assert_string_equal(listed(), "error -20");
    unlink(dir);
    CHECK_RC(FTKIT_ERR_IO, write_set(3)); /* it is not made anew */
    assert_int_equal(mkdir(dir, 0777), 0);
    CHECK_RC(FTKIT_OK, write_set(3));
    ftk_manifest_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(round_trip),
        TEST(parts_are_reproducible),
        TEST_PACKED(round_trip),
        TEST_PACKED(parts_are_reproducible),
        TEST(packed_is_packed),
        TEST(strange_storage),
        TEST(parts_from_a_feed),
        TEST(arguments),
        TEST(commit_checks_parts),
        TEST(error_handlers_survive),
        TEST(master_by_hdf5),
        TEST(master_by_h5dump),
        TEST_PACKED(master_by_hdf5),
        TEST_PACKED(master_by_h5dump),
        TEST(packed_through_h5repack),
        TEST(xdmf_describes_master),
        TEST(master_needs_agreement),
        TEST(strangers),
        TEST(missing_and_odd_parts),
        TEST(foreign_entries),
        TEST(pruning_keeps),
        TEST(unfinished_is_proven),
        TEST(program_of_a_set),
        TEST(bad_directories),
    };
    return cmocka_run_group_tests_name("h5", tests, make_work, remove_work);
}
