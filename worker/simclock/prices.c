#include "prices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_operands(char *text, Price *price) {
  char *rest = NULL;
  for (char *word = strtok_r(text, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
    if (price->num_operands == OPERANDS) return false;
    unsigned shift = 0, count = 1;
    Operand operand = {.bank = word[0], .use = word[1]};
    if (!strchr("xvf", operand.bank) || !operand.use || !strchr("rwacbl", operand.use)) return false;
    if (operand.bank != 'f' && sscanf(word + 2, "%u+%u", &shift, &count) < 1) return false;
    if (shift > 27 || !count || count > 4) return false;
    operand.shift = (uint8_t)shift, operand.count = (uint8_t)count;
    price->operands[price->num_operands++] = operand;
  }
  return true;
}

static bool read_price(char *text, size_t resources, Price *price) {
  char *operands = strchr(text, ':');
  int used = 0;
  *price = (Price){0};
  if (!operands || sscanf(text, "%x %x %u %u %u %u %u%n", &price->mask, &price->value, &price->latency, &price->forward,
                          &price->family, &price->loads, &price->stores, &used) < 7)
    return false;
  *operands++ = 0;
  for (size_t i = 0; i < resources; i++) {
    int more = 0;
    if (sscanf(text + used, "%u%n", price->use + i, &more) < 1) return false;
    used += more;
  }
  return read_operands(operands, price);
}

static bool keep(PriceTable *table, const Price *price) {
  if (!price->mask) {
    if (price->family >= CLASSES) return false;
    table->classes[price->family] = *price;
    return true;
  }
  if (table->num_prices % 256 == 0) {
    Price *more = realloc(table->prices, (table->num_prices + 256) * sizeof *more);
    if (!more) return false;
    table->prices = more;
  }
  table->prices[table->num_prices++] = *price;
  return true;
}

static bool read_line(char *line, PriceTable *table) {
  Price price;
  char *rest = NULL;
  unsigned long long number = 0;
  if (!strncmp(line, "price ", 6)) return read_price(line + 6, table->num_resources, &price) && keep(table, &price);
  if (!strncmp(line, "resources ", 10)) {
    for (char *word = strtok_r(line + 10, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) table->num_resources++;
    return table->num_resources && table->num_resources <= RESOURCES;
  }
  if (sscanf(line, "window %llu", &number) == 1) table->window = number;
  else if (sscanf(line, "taken %llu", &number) == 1) table->taken = number;
  else return false;
  return true;
}

bool prices_read(const char *path, PriceTable *table) {
  FILE *file = fopen(path, "r");
  char line[512];
  int at = 0;
  bool right = file != NULL;
  while (right && fgets(line, sizeof line, file)) at++, right = read_line(line, table);
  if (file) fclose(file);
  if (right && table->num_resources && table->window && table->window <= LARGEST_WINDOW) return true;
  fprintf(stderr, "simclock: %s has no table of prices (line %d)\n", path, at);
  return false;
}

/* Arm Architecture Reference Manual for A-profile, C4.1 "A64 instruction set encoding". */
static Class class_of(uint32_t word) {
  unsigned group = word >> 25 & 15;
  if ((word & 0xbfa0fc00) == 0x2e20fc00 || (word & 0xbfbffc00) == 0x2ea1f800 || (word & 0xff20fc00) == 0x1e201800 ||
      (word & 0xff3ffc00) == 0x1e21c000 || (word & 0x7fe0f800) == 0x1ac00800)
    return CLASS_DIVIDE;
  if ((group & 5) == 4) return (word >> 22 & 1) || (word >> 27 & 7) == 3 ? CLASS_LOAD : CLASS_STORE;
  if ((group & 7) == 7) return CLASS_VECTOR;
  return (group & 14) == 10 ? CLASS_BRANCH : CLASS_INTEGER;
}

static const Price *search(const PriceTable *table, uint32_t word) {
  for (size_t i = 0; i < table->num_prices; i++)
    if ((word & table->prices[i].mask) == table->prices[i].value) return table->prices + i;
  return table->classes + class_of(word);
}

const Price *price_of(const PriceTable *table, uint32_t word) {
  static struct {
    uint32_t word;
    const Price *price;
  } recent[1 << 12];
  size_t slot = (word * 0x9e3779b1u) >> 20;
  if (!recent[slot].price || recent[slot].word != word) {
    recent[slot].word = word;
    recent[slot].price = search(table, word);
  }
  return recent[slot].price;
}
