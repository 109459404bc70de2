// SPDX-License-Identifier: Apache-2.0
/*
 * image_convert(): plan, copy, publish, in that order, for one image or each image of an index.
 * docs/architecture.md.
 */
#include "snapshotter/convert.h"

#include <errno.h>
#include <string.h>

#include "image/artifact/artifact.h"
#include "image/spans/spans.h"
#include "image/writer/oci_target.h"
#include "image/writer/writer.h"
#include "snapshotter/convert/convert_priv.h"
#include "snapshotter/convert/dedup_base.h"
#include "snapshotter/convert/flat.h"
#include "snapshotter/convert/index.h"
#include "snapshotter/convert/layer.h"
#include "snapshotter/convert/plan.h"
#include "snapshotter/convert/publish.h"

/* ------------------------------------------------------------ --- helpers --- */

/* A sink that gives the files of a plan to a tree writer. */
struct write_sink {
	struct copy_sink sink;
	struct tree_writer *writer;
};

static int write_begin(struct copy_sink *s, struct inode *i, struct error *err)
{
	return tree_writer_begin(container_of(s, struct write_sink, sink)
					 ->writer,
				 i, err);
}

static int write_data(struct copy_sink *s, uint64_t off, const void *data,
		      size_t len, struct error *err)
{
	return tree_writer_data(container_of(s, struct write_sink, sink)
					->writer,
				off, data, len, err);
}

static int write_end(struct copy_sink *s, struct error *err)
{
	return tree_writer_end(container_of(s, struct write_sink, sink)->writer,
			       err);
}

/* --------------------------------------------------------------- one image --- */

/* The conversion of one image. */
struct convert_job {
	const struct convert_options *opt;
	struct oci_store *src, *dst;
	const char *platform; /* platform that the image must have; NULL: any */
	bool spool, by_digest;
	struct convert_result *result;

	struct oci_manifest manifest;
	struct oci_image image;
	struct buf config;
	struct digest *diff_ids;
	/* for each layer: the destination does not have it */
	bool *missing;
	struct digest *others; /* artifacts of the image */
	size_t n_others;
	bool has_used; /* `used` is the one that nodes use now */
	struct digest used;
};

static void job_fini(struct convert_job *j)
{
	oci_manifest_fini(&j->manifest);
	oci_image_fini(&j->image);
	buf_fini(&j->config);
	free(j->diff_ids);
	free(j->missing);
	free(j->others);
}

/* Do containers run on the image, by its config's type?  An artifactType alone does not tell,
 * since such an image may have one as well. */
static bool is_runnable(const struct oci_image *m)
{
	const char *config = m->config.media_type;

	return !m->artifact_type[0] ||
	       strcmp(config, "application/vnd.oci.image.config.v1+json") ==
		       0 ||
	       strcmp(config,
		      "application/vnd.docker.container.image.v1+json") == 0;
}

/* Note that the image is wrong, so that the conversion fails wherever it is tried. */
static int mark_image_at_fault(struct convert_result *r, int rc)
{
	r->is_at_fault = rc < 0 && rc != -ENOMEM;
	return rc;
}

/* Note that the image is wrong if its registry lacks a manifest, config or layer (-ENOENT):
 * every node would miss it. */
static int mark_missing_at_fault(struct convert_result *r, int rc)
{
	return rc == -ENOENT ? mark_image_at_fault(r, rc) : rc;
}

static int check_config(struct convert_job *j, size_t *ret_n, struct error *err)
{
	int rc = 0;

	if (j->platform)
		rc = oci_config_check_platform(j->config.data, j->config.len,
					       j->platform, err);
	if (rc == 0)
		rc = oci_config_check_linux(j->config.data, j->config.len, err);
	if (rc == 0)
		rc = oci_config_diff_ids(j->config.data, j->config.len,
					 &j->diff_ids, ret_n, err);
	return rc;
}

static int check_layers(const struct convert_job *j, size_t n_diff_ids,
			struct error *err)
{
	if (n_diff_ids == 0 && j->image.n_layers == 0)
		return error_set(err, EINVAL,
				 "it has no layers, so nothing that could be "
				 "loaded lazily: use it as it is");
	if (n_diff_ids != j->image.n_layers)
		return error_set(err, EINVAL,
				 "its manifest has %zu layers but its config "
				 "%zu diff ids",
				 j->image.n_layers, n_diff_ids);
	return 0;
}

static int job_read(struct convert_job *j, const char *ref, struct error *err)
{
	size_t n = 0;
	int rc = mark_missing_at_fault(j->result,
				       oci_get_manifest(j->src, ref,
							&j->manifest, err));

	if (rc < 0)
		return rc;
	rc = oci_image_parse(j->manifest.body.data, j->manifest.body.len,
			     &j->image, err);
	if (rc == 0 && !is_runnable(&j->image))
		rc = error_set(err, EINVAL, "it is no image but of type '%s'",
			       j->image.artifact_type);
	if (rc < 0)
		return mark_image_at_fault(j->result, rc);
	rc = oci_get_blob(j->src, &j->image.config.digest, j->image.config.size,
			  OCI_CONFIG_MAX, &j->config, err);
	if (rc < 0)
		return mark_missing_at_fault(j->result, rc);
	rc = check_config(j, &n, err);
	if (rc == 0)
		rc = check_layers(j, n, err);
	return mark_image_at_fault(j->result, rc);
}

static int find_missing(struct convert_job *j, struct error *err)
{
	int rc = 0;

	j->missing = calloc(j->image.n_layers + 1, sizeof(bool));
	if (!j->missing)
		return error_nomem(err);
	/* A flat image does not use the old layers. */
	if (j->opt->form == CONVERT_FORM_FLAT || j->opt->alone)
		return 0;
	for (size_t i = 0; rc == 0 && i < j->image.n_layers; i++) {
		bool has = false;

		rc = oci_has_blob(j->dst, &j->image.layers[i].digest, &has,
				  err);
		j->missing[i] = !has;
		/* Upload a blob only once, even if the image has it twice. */
		for (size_t k = 0; k < i; k++)
			if (digest_equal(&j->image.layers[k].digest,
					 &j->image.layers[i].digest))
				j->missing[i] = false;
	}
	return rc;
}

/* Set the image that the artifact belongs to. */
static int set_image(struct artifact *a, const struct digest *image,
		     const struct digest *diff_ids, size_t n, struct error *err)
{
	a->image = *image;
	a->chain_ids = calloc(n + 1, sizeof(*a->chain_ids));
	if (!a->chain_ids)
		return error_nomem(err);
	a->n_chain_ids = n;
	return oci_chain_ids(diff_ids, n, a->chain_ids) < 0 ? error_nomem(err)
							    : 0;
}

/* Store the image's own manifest and config unchanged. */
static int put_image(struct convert_job *j, struct error *err)
{
	struct digest d;
	bool has = false;
	int rc = oci_has_blob(j->dst, &j->image.config.digest, &has, err);

	if (rc == 0 && !has)
		rc = oci_put_bytes(j->dst, j->config.data, j->config.len, &d,
				   err);
	if (rc == 0 && j->by_digest)
		rc = oci_put_manifest(j->dst, NULL, j->manifest.media_type,
				      j->manifest.body.data,
				      j->manifest.body.len, err);
	return rc < 0 ? error_wrap(err, rc, "publish the image") : 0;
}

static void add_result(struct convert_result *r, const struct artifact *a,
		       const struct plan *plan,
		       const struct tree_writer_stats *s)
{
	r->artifact = a->digest;
	r->n_inodes += a->n_inodes;
	r->input_bytes += plan->plain_bytes;
	r->device_bytes += a->device_size;
	r->blocks += s->blocks;
	r->new_blocks += s->new_blocks;
	r->new_bytes += s->new_bytes;
	r->old_bytes += s->old_bytes;
	r->meta_bytes += a->meta.size + a->map.size;
}

/* Copy the files of the plan into the writer, and into the flat layer if there is one. */
static int copy_files(struct convert_job *j, struct plan *plan,
		      struct tree_writer *writer, struct flat *flat,
		      struct error *err)
{
	struct write_sink copy = {
		.sink = { write_begin, write_data, write_end },
		.writer = writer,
	};
	struct copy_sink *sink = &copy.sink;
	int rc;

	if (flat)
		sink = flat_wrap(flat, sink);
	rc = plan_copy(plan, sink, j->missing, tree_writer_upload(writer), err);
	return rc == 0 && flat ? flat_close(flat, err) : rc;
}

/* For the form index: give the packs the media types that the image has for its layers. */
static void name_types(const struct convert_job *j, struct artifact *a)
{
	for (size_t i = 0; i < a->n_packs; i++)
		(void)snprintf(a->packs[i].media_type,
			       sizeof(a->packs[i].media_type), "%s",
			       i < j->image.n_layers
				       ? j->image.layers[i].media_type
				       : ARTIFACT_WINDOWS_TYPE);
}

/* Form F2: store the artifact beside the unchanged image. */
static int publish_beside(struct convert_job *j, struct publish *p,
			  struct error *err)
{
	int rc;

	if (p->artifact->format == ARTIFACT_FORMAT_INDEX)
		name_types(j, p->artifact);
	rc = set_image(p->artifact, &j->manifest.digest, j->diff_ids,
		       j->image.n_layers, err);

	if (rc == 0 && !j->opt->alone)
		rc = put_image(j, err);
	p->image_manifest_size = j->manifest.body.len;
	p->image_media_type = j->manifest.media_type;
	p->others = j->others;
	p->n_others = j->n_others;
	p->used = j->has_used ? &j->used : NULL;
	return rc < 0 ? rc : publish_manifest(p, NULL, err);
}

/* Form F1: store the artifact, then an image of one layer that names it.  The job continues
 * with that image. */
static int publish_flat(struct convert_job *j, struct publish *p,
			struct flat *flat, struct error *err)
{
	static const struct digest none;
	char tag[DIGEST_STR_MAX + 16], text[DIGEST_STR_MAX];
	int rc = set_image(p->artifact, &none, flat_diff_id(flat), 1, err);

	if (rc < 0)
		return rc;
	/* Tag the artifact: no manifest refers to it, so a registry's garbage collection would
	 * remove it.  The tag comes from the digest of the metadata, which names the map too:
	 * if two artifacts had the same tag, only the last would be kept. */
	digest_format(&p->artifact->meta_raw, text);
	(void)snprintf(tag, sizeof(tag), "sha256-%s.bootseer", text + 7);
	rc = publish_manifest(p, tag, err);
	if (rc < 0)
		return rc;
	oci_manifest_fini(&j->manifest);
	rc = flat_manifest(flat, j->dst, &j->config, &p->artifact->digest,
			   &j->manifest, err);
	if (rc == 0 && j->by_digest)
		rc = oci_put_manifest(j->dst, NULL, j->manifest.media_type,
				      j->manifest.body.data,
				      j->manifest.body.len, err);
	return rc < 0 ? error_wrap(err, rc, "publish the flat image") : 0;
}

static int publish_artifact(struct convert_job *j, struct artifact *a,
			    struct flat *flat, struct error *err)
{
	struct publish p = { .store = j->dst, .artifact = a };
	int rc = flat ? publish_flat(j, &p, flat, err)
		      : publish_beside(j, &p, err);

	if (rc == 0 && j->opt->sign)
		rc = sign_artifact(j->dst, a, p.manifest_size, j->opt->sign,
				   TRUST_CLAIM_SIGNED, err);
	return rc;
}

/* Store the files of the plan, then the artifact that says where they are. */
static int store_planned(struct convert_job *j, struct plan *plan,
			 struct dedup_base *base, struct artifact *a,
			 struct error *err)
{
	struct oci_target target;
	const struct tree_writer_config cfg = {
		.tree = plan->tree,
		.target = &target.target,
		.index = base ? dedup_base_index(base) : NULL,
		.level = j->opt->level,
		.temp_dir = j->opt->temp_dir,
		.jobs = j->opt->jobs,
		.spans = plan->spans,
	};
	struct tree_writer_stats stats;
	AUTO(tree_writer) writer = NULL;
	AUTO(flat) flat = NULL;
	int rc;

	oci_target_init(&target, j->dst);
	rc = tree_writer_new(&cfg, &writer, err);
	if (rc == 0 && j->opt->form == CONVERT_FORM_FLAT)
		rc = flat_new(plan->tree, j->opt->jobs, j->opt->temp_dir,
			      tree_writer_upload(writer), &flat, err);
	if (rc == 0)
		rc = copy_files(j, plan, writer, flat, err);
	if (rc == 0)
		rc = tree_writer_finish(writer, a, &stats, err);
	if (rc == 0)
		rc = publish_artifact(j, a, flat, err);
	if (rc == 0)
		add_result(j->result, a, plan, &stats);
	return rc;
}

static int convert_planned(struct convert_job *j, struct plan *plan,
			   struct error *err)
{
	AUTO(dedup_base) base = NULL;
	AUTO_FINI(artifact) a = { .format = ARTIFACT_FORMAT };
	int rc;

	/* Holes are written as zeros into a flat layer, which could get too large to unpack. */
	if (j->opt->form == CONVERT_FORM_FLAT &&
	    plan->image_bytes > LAYER_PLAIN_MAX)
		return error_set(err, EFBIG,
				 "a flat layer of its files would have %llu "
				 "bytes; %llu are the most",
				 (unsigned long long)plan->image_bytes,
				 (unsigned long long)LAYER_PLAIN_MAX);
	rc = find_missing(j, err);
	if (rc == 0 && !plan->spans)
		rc = dedup_base_load(j->dst, j->opt->sign, &base, err);
	if (rc == 0)
		rc = store_planned(j, plan, base, &a, err);
	return rc;
}

static int list_others(struct convert_job *j, struct error *err)
{
	free(j->others);
	j->others = NULL;
	j->n_others = 0;
	return oci_list_referrers(j->dst, &j->manifest.digest, ARTIFACT_TYPE,
				  &j->others, &j->n_others, err);
}

/* Does the image have a usable artifact already?  1: yes. */
static int find_existing(struct convert_job *j, struct error *err)
{
	struct error why;
	struct artifact a;
	int rc;

	if (j->opt->form == CONVERT_FORM_FLAT)
		return 0;
	rc = artifact_find(j->dst, &j->manifest.digest, &a, &why);
	if (rc == 0) {
		j->has_used = true;
		j->used = a.digest;
		j->result->existed = !j->opt->force;
		j->result->artifact = a.digest;
		artifact_fini(&a);
		return j->opt->force ? list_others(j, err) : 1;
	}
	if (rc == -ENOTSUP && !j->opt->force)
		return error_set(err, ENOTSUP,
				 "%s: a newer bootseer wrote it: use that one, "
				 "or --force to replace it",
				 why.msg);
	if (rc == -ENOENT)
		return 0;
	/* An artifact that cannot be used is replaced. */
	if (rc == -EBADMSG || rc == -EINVAL || rc == -ENOTSUP)
		return list_others(j, err);
	if (err)
		*err = why;
	return rc;
}

/* Sign the artifact that was there before the conversion. */
static int sign_used(struct convert_job *j, struct error *err)
{
	const struct check_options opt = {
		.temp_dir = j->opt->temp_dir,
		.progress = j->opt->progress,
	};
	struct artifact a;
	struct check_target t = {
		.store = j->dst,
		.artifact = &a,
		.image = &j->manifest.digest,
		.layers = j->src,
		.spool = j->spool,
	};
	int rc = artifact_get(j->dst, &j->used, &a, err);

	if (rc < 0)
		return rc;
	rc = sign_existing(&t, &opt, j->opt->sign, &j->result->compared, err);
	artifact_fini(&a);
	return rc;
}

/* Remove all artifacts of the image except `artifact`. */
static int prune_others(struct convert_job *j, const struct digest *artifact,
			struct error *err)
{
	int rc = list_others(j, err);

	for (size_t i = 0; rc == 0 && i < j->n_others; i++)
		if (!digest_equal(&j->others[i], artifact))
			rc = remove_artifact(j->dst, &j->others[i], err);
	return rc < 0 ? error_wrap(err, rc, "remove a replaced artifact") : 0;
}

static int convert_job(struct convert_job *j, struct error *err)
{
	struct plan_config cfg = {
		.store = j->src,
		.image = &j->image,
		.diff_ids = j->diff_ids,
		.spool = j->spool,
		.temp_dir = j->opt->temp_dir,
		.progress = j->opt->progress,
		.is_at_fault = &j->result->is_at_fault,
		.jobs = j->opt->jobs,
		.readings = j->opt->readings,
	};
	AUTO(span_set) spans = NULL;
	AUTO(plan) plan = NULL;
	int rc = find_existing(j, err);

	if (rc == 0) {
		if (j->opt->form == CONVERT_FORM_INDEX)
			rc = span_set_new(j->opt->temp_dir, &spans, err);
		cfg.spans = spans;
		if (rc == 0)
			rc = plan_make(&cfg, &plan, err);
		if (rc == 0)
			rc = convert_planned(j, plan, err);
	} else if (rc == 1 && j->opt->sign) {
		rc = sign_used(j, err);
	}
	if (rc >= 0 && j->opt->prune)
		rc = prune_others(j, &j->result->artifact, err);
	return rc < 0 ? rc : 0;
}

/* Convert one image; `manifest` becomes the image's manifest in the destination. `platform`
 * NULL: the platform is known, or does not matter. */
static int convert_one(const struct convert_run *run, const char *ref,
		       const char *platform, struct oci_manifest *manifest,
		       struct error *err)
{
	struct convert_job j = {
		.opt = run->opt,
		.platform = platform,
		.src = run->src,
		.dst = run->dst,
		.spool = run->spool,
		.by_digest = run->by_digest,
		.result = run->result,
	};
	int rc = job_read(&j, ref, err);

	if (rc == 0)
		rc = convert_job(&j, err);
	if (rc == 0) {
		*manifest = j.manifest;
		j.manifest.body = (struct buf)BUF_INIT;
	}
	job_fini(&j);
	return rc;
}

/* ------------------------------------------------------------------ indexes --- */

static int convert_all(const struct convert_run *run,
		       const struct oci_manifest *index, unsigned int depth,
		       struct error *err);

/* Convert an entry of an index: an image or a nested index. */
static int convert_entry(const struct convert_run *run,
			 const struct index_entry *entry, unsigned int depth,
			 struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	char ref[DIGEST_STR_MAX];
	int rc;

	digest_format(&entry->digest, ref);
	if (!entry->is_index) {
		rc = convert_one(run, ref, NULL, &m, err);
	} else {
		rc = oci_get_manifest(run->src, ref, &m, err);
		if (rc == 0)
			rc = convert_all(run, &m, depth + 1, err);
		if (rc == 0)
			rc = oci_put_manifest(run->dst, NULL, m.media_type,
					      m.body.data, m.body.len, err);
	}
	return rc;
}

/* Convert every platform, and copy what else the index lists. */
static int convert_all(const struct convert_run *run,
		       const struct oci_manifest *index, unsigned int depth,
		       struct error *err)
{
	AUTO_FREE struct index_entry *list = NULL;
	struct convert_run each = *run;
	size_t n = 0;
	int rc;

	if (depth == OCI_INDEX_DEPTH_MAX)
		return error_set(err, ELOOP,
				 "more than %d indexes in each other",
				 OCI_INDEX_DEPTH_MAX);
	each.by_digest = true;
	rc = index_parse(index->body.data, index->body.len, &list, &n, err);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = convert_entry(&each, &list[i], depth, err);
		if (rc < 0 && list[i].platform[0])
			error_wrap(err, rc, "platform %s", list[i].platform);
	}
	return rc < 0 ? rc
		      : index_copy_others(run->src, run->dst, index,
					  run->opt->temp_dir, err);
}

/* The platform that the options name; NULL: all, or this machine's if the image has several. */
static const char *named_platform(const struct convert_run *run)
{
	const char *platform = run->opt->platform;

	return platform && strcmp(platform, "all") != 0 ? platform : NULL;
}

static int convert_index(const struct convert_run *run, struct oci_manifest *m,
			 struct error *err)
{
	AUTO_FREE struct index_entry *list = NULL;
	const char *platform = named_platform(run);
	char ref[DIGEST_STR_MAX];
	struct digest d;
	size_t n = 0;
	int rc;

	if (platform || !run->opt->platform) {
		rc = oci_index_find(run->src, m, platform, &d, err);
		if (rc < 0)
			return mark_missing_at_fault(run->result, rc);
		digest_format(&d, ref);
		oci_manifest_fini(m);
		return convert_one(run, ref, NULL, m, err);
	}
	/* Deeply nested indexes could make endless work from few bytes. */
	rc = index_images(run->src, m, &list, &n, err);
	if (rc == -ELOOP || rc == -E2BIG)
		return mark_image_at_fault(run->result, rc);
	return rc < 0 ? mark_missing_at_fault(run->result, rc)
		      : convert_all(run, m, 0, err);
}

/* Does the tag name an index that contains the image?  Then the tag is not moved. */
static bool tag_holds(struct oci_store *dst, const char *tag,
		      const struct digest *index)
{
	AUTO_FINI(oci_manifest) now = { .body = BUF_INIT };

	return oci_get_manifest(dst, tag, &now, NULL) == 0 &&
	       digest_equal(&now.digest, index);
}

static int run_convert(const struct convert_run *run, const struct oci_ref *src,
		       const struct oci_ref *dst, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	char text[DIGEST_STR_MAX];
	struct digest named;
	int rc = oci_get_manifest(run->src, oci_ref_name(src, text), &m, err);

	if (rc < 0)
		return mark_missing_at_fault(run->result, rc);
	named = m.digest;
	if (oci_media_type_is_index(m.media_type)) {
		rc = convert_index(run, &m, err);
	} else {
		oci_manifest_fini(&m);
		digest_format(&named, text);
		rc = convert_one(run, text, named_platform(run), &m, err);
	}
	if (rc == 0 && dst->tag && !run->opt->alone &&
	    !tag_holds(run->dst, dst->tag, &named))
		rc = oci_put_manifest(run->dst, dst->tag, m.media_type,
				      m.body.data, m.body.len, err);
	oci_manifest_fini(&m);
	return rc;
}

int image_convert_check(const struct oci_ref *dst,
			const struct convert_options *opt, struct error *err)
{
	if (dst->transport == OCI_TRANSPORT_ARCHIVE)
		return error_set(err, EINVAL,
				 "docker-archive: is only read: DST is "
				 "docker://HOST[:PORT]/REPOSITORY[:TAG] or "
				 "oci:DIR[:TAG]");
	if (dst->has_digest)
		return error_set(err, EINVAL,
				 "the destination must be a tag, "
				 "not a digest");
	if (opt->platform && strcmp(opt->platform, "all") != 0 &&
	    oci_platform_check(opt->platform, err) < 0)
		return error_wrap(err, -EINVAL, "--platform");
	if (opt->alone && opt->form != CONVERT_FORM_INDEX)
		return error_set(err, EINVAL,
				 "--alone is of --form index: the blocks of "
				 "others are of no use without the image");
	if (opt->form == CONVERT_FORM_FLAT && opt->platform &&
	    strcmp(opt->platform, "all") == 0)
		return error_set(err, EINVAL,
				 "a flat image is of one platform: name it");
	return 0;
}

int image_convert(const struct oci_ref *src, const struct oci_ref *dst,
		  const struct convert_options *opt, struct convert_result *ret,
		  struct error *err)
{
	AUTO(oci_store) from = NULL;
	AUTO(oci_store) to = NULL;
	struct convert_options here = *opt;
	struct convert_run run = { .opt = &here, .result = ret };
	AUTO_FREE char *name = oci_ref_format(src);
	int rc;

	*ret = (struct convert_result){ .n_inodes = 0 };
	if (!name)
		return error_nomem(err);
	rc = image_convert_check(dst, opt, err);
	if (rc < 0)
		return rc;
	rc = oci_store_open(src, &opt->src_config, false, &from, err);
	if (rc == 0)
		rc = oci_store_open(dst, &opt->dst_config, true, &to, err);
	if (rc < 0)
		return rc;
	run.src = from;
	run.dst = to;
	/* In a layout folder, temporary files can become blobs without a copy. */
	if (!here.temp_dir && dst->transport == OCI_TRANSPORT_LAYOUT)
		here.temp_dir = dst->repo;
	/* Without a tag the image is stored by its digest; otherwise its tag is set once its
	 * artifact is stored. */
	run.by_digest = !dst->tag;
	run.spool = src->transport == OCI_TRANSPORT_REGISTRY;
	rc = run_convert(&run, src, dst, err);
	return rc < 0 ? error_wrap(err, rc, "convert %s", name) : 0;
}
