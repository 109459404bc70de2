// SPDX-License-Identifier: Apache-2.0
/* Feeds each file of the folders named on the command line to a fuzz target. */
#include <dirent.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (16u << 20)

static int replay_dir(const char *path, size_t *n)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int failed = 0;

	if (!dir) {
		perror(path);
		return 1;
	}
	while ((e = readdir(dir))) {
		AUTO_BUF name = BUF_INIT;
		AUTO_BUF input = BUF_INIT;
		struct error err = ERROR_INIT;

		if (e->d_name[0] == '.')
			continue;
		if (buf_printf(&name, "%s/%s", path, e->d_name) < 0 ||
		    fs_read_file(name.data, INPUT_MAX, &input, &err) < 0) {
			fprintf(stderr, "%s: %s\n", e->d_name, err.msg);
			failed = 1;
			continue;
		}
		(void)LLVMFuzzerTestOneInput((const uint8_t *)input.data,
					     input.len);
		(*n)++;
	}
	closedir(dir);
	return failed;
}

int main(int argc, char **argv)
{
	size_t n = 0;
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed |= replay_dir(argv[i], &n);
	printf("%zu inputs\n", n);
	/* An empty corpus is a test that cannot fail. */
	return failed || n == 0;
}
