// SPDX-License-Identifier: Apache-2.0
/* Docker archives: every blob that a manifest names can be asked for. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fs.h"
#include "objects/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_image(struct oci_store *s)
{
	struct oci_manifest m;
	struct oci_image image;

	if (oci_get_manifest(s, NULL, &m, NULL) < 0)
		return;
	if (oci_image_parse(m.body.data, m.body.len, &image, NULL) == 0) {
		for (size_t i = 0; i < image.n_layers; i++) {
			AUTO_BUF b = BUF_INIT;

			(void)!oci_get_blob(s, &image.layers[i].digest,
					    image.layers[i].size, 1u << 20, &b,
					    NULL);
		}
		oci_image_fini(&image);
	}
	oci_manifest_fini(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct oci_config cfg = OCI_CONFIG_INIT;
	AUTO_CLOSE int fd = memfd_create("archive", MFD_CLOEXEC);
	struct oci_store *s = NULL;
	char path[64];
	struct oci_ref ref = { .transport = OCI_TRANSPORT_ARCHIVE,
			       .repo = path };

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || fs_write_full(fd, data, size) < 0 ||
	    oci_store_open(&ref, &cfg, false, &s, NULL) < 0)
		return 0;
	read_image(s);
	oci_store_free(s);
	return 0;
}
