#include "loader.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arch.h"
#include "error.h"
#include "exports.h"

#if __SIZEOF_POINTER__ == 8
typedef Elf64_Ehdr Header;
typedef Elf64_Phdr Segment;
typedef Elf64_Dyn Dynamic;
typedef Elf64_Sym Symbol;
typedef Elf64_Rela Relocation;
#define RELOCATION_TYPE ELF64_R_TYPE
#define RELOCATION_SYMBOL ELF64_R_SYM
enum { HOST_CLASS = ELFCLASS64 };
#else
typedef Elf32_Ehdr Header;
typedef Elf32_Phdr Segment;
typedef Elf32_Dyn Dynamic;
typedef Elf32_Sym Symbol;
#if ARCH_ADDENDS_IN_PLACE
typedef Elf32_Rel Relocation;
#else
typedef Elf32_Rela Relocation;
#endif
#define RELOCATION_TYPE ELF32_R_TYPE
#define RELOCATION_SYMBOL ELF32_R_SYM
enum { HOST_CLASS = ELFCLASS32 };
#endif

#if ARCH_ADDENDS_IN_PLACE
enum { TABLE = DT_REL, TABLE_BYTES = DT_RELSZ };
#else
enum { TABLE = DT_RELA, TABLE_BYTES = DT_RELASZ };
#endif

enum { MAX_IMAGE_BYTES = 256 << 20 };

struct Image {
  uint8_t *base;
  size_t bytes;
  const Symbol *symbols;
  size_t num_symbols;
  const char *names;
  size_t names_bytes;
};

/* Whether [at, at + bytes) lies within `limit`. */
static bool within(uint64_t at, uint64_t bytes, uint64_t limit) { return at <= limit && bytes <= limit - at; }

static const char *name_of(const Image *image, const Symbol *symbol) {
  if (symbol->st_name >= image->names_bytes) return "";
  return image->names + symbol->st_name; /* the table ends with 0, checked once */
}

void *image_symbol(const Image *image, const char *name) {
  for (size_t i = 1; i < image->num_symbols; i++) {
    const Symbol *symbol = image->symbols + i;
    bool here = symbol->st_shndx != SHN_UNDEF && symbol->st_value < image->bytes;
    if (here && !strcmp(name_of(image, symbol), name))
      return image->base + symbol->st_value;
  }
  return NULL;
}

/* Check the file's header and return its segments. */
static const Segment *read_header(const uint8_t *file, size_t bytes, size_t *count) {
  const Header *header = (const Header *)file;
  const char *wrong = NULL;
  if (bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG)) wrong = "not an ELF file";
  else if (header->e_ident[EI_CLASS] != HOST_CLASS || header->e_ident[EI_DATA] != ELFDATA2LSB)
    wrong = "of another word size or byte order than this board";
  else if (header->e_type != ET_DYN) wrong = "not a shared object";
  else if (header->e_phentsize != sizeof(Segment) || header->e_phoff % _Alignof(Segment) ||
           !within(header->e_phoff, (uint64_t)header->e_phnum * sizeof(Segment), bytes))
    wrong = "damaged (its segment table)";
  if (wrong) return error_set("candidate: %s", wrong), NULL;
  if (header->e_machine != ARCH_MACHINE)
    return error_set("candidate: built for ELF machine %d, this board is %d", header->e_machine, ARCH_MACHINE), NULL;
  *count = header->e_phnum;
  return (const Segment *)(file + header->e_phoff);
}

/* Reserve memory for the whole image and copy its segments there. */
static int map_segments(Image *image, const uint8_t *file, size_t bytes, const Segment *segments, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const Segment *s = segments + i;
    if (s->p_type == PT_TLS) return error_set("candidate: thread-local storage is not supported");
    if (s->p_type != PT_LOAD) continue;
    if (!within(s->p_offset, s->p_filesz, bytes) || s->p_filesz > s->p_memsz ||
        !within(s->p_vaddr, s->p_memsz, MAX_IMAGE_BYTES))
      return error_set("candidate: damaged (segment %zu)", i);
    if (s->p_vaddr + s->p_memsz > image->bytes) image->bytes = s->p_vaddr + s->p_memsz;
  }
  if (!image->bytes) return error_set("candidate: nothing to load");
  void *base = mmap(NULL, image->bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return error_set("candidate: no memory for an image of %zu bytes", image->bytes);
  image->base = base;
  for (size_t i = 0; i < count; i++)
    if (segments[i].p_type == PT_LOAD)
      memcpy(image->base + segments[i].p_vaddr, file + segments[i].p_offset, segments[i].p_filesz);
  return 0;
}

typedef struct {
  const Relocation *data, *calls;
  size_t num_data, num_calls;
} Relocations;

/* Find the symbol, name and relocation tables in the image. */
static int read_dynamic(Image *image, const Segment *segments, size_t count, Relocations *relocations) {
  const Segment *found = NULL;
  for (size_t i = 0; i < count; i++)
    if (segments[i].p_type == PT_DYNAMIC) found = segments + i;
  if (!found || !within(found->p_vaddr, found->p_memsz, image->bytes) || found->p_vaddr % _Alignof(Dynamic))
    return error_set("candidate: damaged (no dynamic section)");
  uint64_t symbols = 0, names = 0, hash = 0, data = 0, calls = 0, data_bytes = 0, calls_bytes = 0;
  const Dynamic *entry = (const Dynamic *)(image->base + found->p_vaddr);
  for (size_t i = 0; i < found->p_memsz / sizeof *entry && entry[i].d_tag != DT_NULL; i++) {
    uint64_t value = entry[i].d_un.d_val;
    switch (entry[i].d_tag) {
      case DT_SYMTAB: symbols = value; break;
      case DT_STRTAB: names = value; break;
      case DT_STRSZ: image->names_bytes = (size_t)value; break;
      case DT_HASH: hash = value; break;
      case TABLE: data = value; break;
      case TABLE_BYTES: data_bytes = value; break;
      case DT_JMPREL: calls = value; break;
      case DT_PLTRELSZ: calls_bytes = value; break;
      case DT_INIT:
      case DT_INIT_ARRAY: return error_set("candidate: constructors are not supported");
      case DT_NEEDED: return error_set("candidate: needs another library; link it statically");
      default: break;
    }
  }
  /* The symbol table's length is only to be had from the old-style hash table's chain count. */
  if (!hash || !within(hash, 8, image->bytes)) return error_set("candidate: no DT_HASH (link with --hash-style=both)");
  uint32_t chains;
  memcpy(&chains, image->base + hash + 4, sizeof chains);
  if (!within(symbols, (uint64_t)chains * sizeof(Symbol), image->bytes) || symbols % _Alignof(Symbol) ||
      !within(names, image->names_bytes, image->bytes) || !image->names_bytes ||
      image->base[names + image->names_bytes - 1] || !within(data, data_bytes, image->bytes) ||
      !within(calls, calls_bytes, image->bytes) || (data | calls) % _Alignof(Relocation))
    return error_set("candidate: damaged (its dynamic tables)");
  image->num_symbols = chains;
  image->symbols = (const Symbol *)(image->base + symbols);
  image->names = (const char *)image->base + names;
  *relocations = (Relocations){.data = (const Relocation *)(image->base + data),
                               .calls = (const Relocation *)(image->base + calls),
                               .num_data = (size_t)data_bytes / sizeof(Relocation),
                               .num_calls = (size_t)calls_bytes / sizeof(Relocation)};
  return 0;
}

static uintptr_t addend_of(const Image *image, const Relocation *relocation, uint32_t type) {
#if ARCH_ADDENDS_IN_PLACE
  uintptr_t addend;
  memcpy(&addend, image->base + relocation->r_offset, sizeof addend);
  return type == ARCH_R_JUMP_SLOT ? 0 : addend; /* lazy binding keeps an address of its own there */
#else
  (void)image, (void)type;
  return (uintptr_t)relocation->r_addend;
#endif
}

static int relocate(Image *image, const Relocation *relocations, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const Relocation *r = relocations + i;
    uint32_t type = (uint32_t)RELOCATION_TYPE(r->r_info);
    size_t index = (size_t)RELOCATION_SYMBOL(r->r_info);
    if (!within(r->r_offset, sizeof(uintptr_t), image->bytes) || index >= image->num_symbols)
      return error_set("candidate: damaged (relocation %zu)", i);
    uintptr_t value;
    if (type == ARCH_R_RELATIVE) {
      value = (uintptr_t)image->base;
    } else if (type == ARCH_R_ABSOLUTE || type == ARCH_R_GLOB_DAT || type == ARCH_R_JUMP_SLOT) {
      const Symbol *symbol = image->symbols + index;
      const char *name = name_of(image, symbol);
      bool defined = symbol->st_shndx != SHN_UNDEF;
      value = defined ? (uintptr_t)image->base + (uintptr_t)symbol->st_value : (uintptr_t)export_find(name);
      if (!value && symbol->st_info >> 4 != STB_WEAK)
        return error_set("candidate: undefined symbol %s: this board does not offer it", name);
    } else {
      return error_set("candidate: relocation type %u is not supported", type);
    }
    value += addend_of(image, r, type);
    memcpy(image->base + r->r_offset, &value, sizeof value);
  }
  return 0;
}

/* TVM also lets a module hold pointers to runtime functions, in variables named `__` plus their name. */
static void fill_context(Image *image) {
  for (size_t i = 1; i < image->num_symbols; i++) {
    const Symbol *symbol = image->symbols + i;
    const char *name = name_of(image, symbol);
    if (symbol->st_shndx == SHN_UNDEF || strncmp(name, "__TVM", 5)) continue;
    void *address = export_find(name + 2);
    if (address && within(symbol->st_value, sizeof address, image->bytes))
      memcpy(image->base + symbol->st_value, &address, sizeof address);
  }
}

Image *image_load(const uint8_t *file, size_t bytes) {
  size_t count;
  const Segment *segments = read_header(file, bytes, &count);
  if (!segments) return NULL;
  Image *image = calloc(1, sizeof *image);
  if (!image) return error_set("candidate: out of memory"), NULL;
  Relocations relocations;
  if (map_segments(image, file, bytes, segments, count) || read_dynamic(image, segments, count, &relocations) ||
      relocate(image, relocations.data, relocations.num_data) ||
      relocate(image, relocations.calls, relocations.num_calls)) {
    image_unload(image);
    return NULL;
  }
  fill_context(image);
  arch_sync_code((char *)image->base, (char *)image->base + image->bytes);
  return image;
}

void image_unload(Image *image) {
  if (image->base) munmap(image->base, image->bytes);
  free(image);
}
