// SPDX-License-Identifier: Apache-2.0
#include "image/closure/elf.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"

/* Offset of a field: fields are read by offset since the bytes may be unaligned. */
#define AT(type, field) offsetof(type, field)

static bool is_within(const struct elf_range *r, uint64_t size)
{
	return r->off <= size && r->len <= size - r->off;
}

int elf_head_parse(const void *data, size_t len, uint64_t file_size,
		   struct elf_head *ret)
{
	const uint8_t *p = data;
	uint16_t count;

	if (len < ELF_IDENT_SIZE || memcmp(p, ELFMAG, SELFMAG) != 0 ||
	    p[EI_CLASS] != ELFCLASS64 || p[EI_DATA] != ELFDATA2LSB)
		return -EINVAL;
	count = get_le16(p + AT(Elf64_Ehdr, e_phnum));
	*ret = (struct elf_head){
		.machine = get_le16(p + AT(Elf64_Ehdr, e_machine)),
		.program_headers = {
			get_le64(p + AT(Elf64_Ehdr, e_phoff)),
			(uint64_t)count * ELF_PROGRAM_HEADER_SIZE,
		},
	};
	return get_le16(p + AT(Elf64_Ehdr, e_phentsize)) ==
				       ELF_PROGRAM_HEADER_SIZE &&
			       count > 0 && count <= ELF_PROGRAM_HEADERS_MAX &&
			       is_within(&ret->program_headers, file_size)
		       ? 0
		       : -EINVAL;
}

static void take_segment(const uint8_t *p, uint64_t file_size,
			 struct elf_head *h)
{
	struct elf_range file = { get_le64(p + AT(Elf64_Phdr, p_offset)),
				  get_le64(p + AT(Elf64_Phdr, p_filesz)) };
	uint32_t flags = get_le32(p + AT(Elf64_Phdr, p_flags));

	if (!is_within(&file, file_size))
		return;
	switch (get_le32(p + AT(Elf64_Phdr, p_type))) {
	case PT_INTERP:
		h->interpreter = file;
		break;
	case PT_DYNAMIC:
		h->dynamic = file;
		if (h->dynamic.len > ELF_DYNAMIC_MAX)
			h->dynamic.len = ELF_DYNAMIC_MAX;
		break;
	case PT_LOAD:
		if (h->n_loads < ELF_LOADS_MAX)
			h->loads[h->n_loads++] = (struct elf_load){
				.file = file,
				.address =
					get_le64(p + AT(Elf64_Phdr, p_vaddr)),
				.is_code = flags & PF_X,
				.is_written = flags & PF_W,
			};
		break;
	default:
		break;
	}
}

int elf_segments_parse(const void *data, size_t len, uint64_t file_size,
		       struct elf_head *head)
{
	const uint8_t *p = data;

	if (len < head->program_headers.len)
		return -EINVAL;
	for (size_t i = 0; i < head->program_headers.len;
	     i += ELF_PROGRAM_HEADER_SIZE)
		take_segment(p + i, file_size, head);
	return 0;
}

/* Range of the file that is mapped at an address: up to `len` bytes. */
static struct elf_range find_address(const struct elf_head *h, uint64_t address,
				     uint64_t len)
{
	for (size_t i = 0; i < h->n_loads; i++) {
		const struct elf_load *l = &h->loads[i];
		uint64_t skip = address - l->address;

		if (address < l->address || skip >= l->file.len)
			continue;
		return (struct elf_range){ l->file.off + skip,
					   len < l->file.len - skip
						   ? len
						   : l->file.len - skip };
	}
	return (struct elf_range){ 0, 0 };
}

/* Addresses and sizes of the dynamic section's tables; 0 while not known. */
struct elf_tables {
	uint64_t strings, strings_len, relocations, relocations_len, calls,
		calls_len;
	bool has_run_path;
};

static void take_entry(uint64_t tag, uint64_t value, struct elf_tables *t,
		       struct elf_dynamic *d)
{
	switch (tag) {
	case DT_NEEDED:
		if (d->n_needed < ELF_NEEDED_MAX)
			d->needed[d->n_needed++] = value;
		break;
	case DT_RUNPATH:
		d->has_path = t->has_run_path = true;
		d->path = value;
		break;
	case DT_RPATH:
		if (!t->has_run_path)
			d->path = value;
		d->has_path = true;
		break;
	case DT_STRTAB:
		t->strings = value;
		break;
	case DT_STRSZ:
		t->strings_len = value;
		break;
	case DT_RELA:
		t->relocations = value;
		break;
	case DT_RELASZ:
		t->relocations_len = value;
		break;
	case DT_JMPREL:
		t->calls = value;
		break;
	case DT_PLTRELSZ:
		t->calls_len = value;
		break;
	default:
		break;
	}
}

int elf_dynamic_parse(const void *data, size_t len, const struct elf_head *head,
		      struct elf_dynamic *ret)
{
	const uint8_t *p = data;
	struct elf_tables t = { .strings = 0 };

	*ret = (struct elf_dynamic){ .n_needed = 0 };
	for (size_t i = 0; i + sizeof(Elf64_Dyn) <= len;
	     i += sizeof(Elf64_Dyn)) {
		uint64_t tag = get_le64(p + i);

		if (tag == DT_NULL)
			break;
		take_entry(tag, get_le64(p + i + 8), &t, ret);
	}
	ret->strings = find_address(head, t.strings, t.strings_len);
	ret->relocations = find_address(head, t.relocations, t.relocations_len);
	ret->calls = find_address(head, t.calls, t.calls_len);
	return ret->strings.len ? 0 : -EINVAL;
}
