// SPDX-License-Identifier: Apache-2.0
/*
 * Reads from an ELF file what its start needs: its interpreter, its libraries, and
 * the parts that the loader reads. Pure; accepts any bytes, and checks every number against the
 * file's size before use. 64-bit little-endian files only, as on the machines that BootSeer runs
 * on.
 */
#ifndef BOOTSEER_IMAGE_CLOSURE_ELF_H
#define BOOTSEER_IMAGE_CLOSURE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

#define ELF_IDENT_SIZE 64u
#define ELF_PROGRAM_HEADER_SIZE 56u
#define ELF_PROGRAM_HEADERS_MAX 64u
#define ELF_LOADS_MAX 16u
#define ELF_NEEDED_MAX 128u
#define ELF_DYNAMIC_MAX (64u << 10) /* bytes of the dynamic section looked at */

#define ELF_MACHINE_X86_64 62u
#define ELF_MACHINE_AARCH64 183u

struct elf_range {
	uint64_t off, len; /* in the file; len 0: none */
};

/* A part of the file that is mapped into memory. */
struct elf_load {
	struct elf_range file;
	uint64_t address;
	bool is_code, is_written;
};

struct elf_head {
	uint16_t machine;
	struct elf_range program_headers;
	/* Set by elf_segments_parse(): */
	struct elf_range interpreter, dynamic;
	struct elf_load loads[ELF_LOADS_MAX];
	size_t n_loads;
};

/* Parse the first ELF_IDENT_SIZE bytes, which tell where the program headers are. -EINVAL:
 * not an ELF file of this kind. */
int elf_head_parse(const void *data, size_t len, uint64_t file_size,
		   struct elf_head *ret) MUST_CHECK;
/* Parse the bytes of head->program_headers. */
int elf_segments_parse(const void *data, size_t len, uint64_t file_size,
		       struct elf_head *head) MUST_CHECK;

struct elf_dynamic {
	struct elf_range strings;
	/* offsets of the libraries' names in `strings` */
	uint64_t needed[ELF_NEEDED_MAX];
	size_t n_needed;
	bool has_path;
	uint64_t path; /* offset in `strings` of DT_RUNPATH, else of DT_RPATH */
	/* The dynamic linker reads these; symbols usually lie before them in the file. */
	struct elf_range relocations, calls;
};

/* Parse the bytes of head->dynamic. -EINVAL: the strings are in no mapped part of the file. */
int elf_dynamic_parse(const void *data, size_t len, const struct elf_head *head,
		      struct elf_dynamic *ret) MUST_CHECK;

#endif
