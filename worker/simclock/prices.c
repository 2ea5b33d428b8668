#include "prices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_operand(const char *text, Operand *operand) {
  unsigned shift = 0, count = 1;
  *operand = (Operand){.bank = text[0], .use = text[1], .mask = 31};
  if (!operand->bank || !strchr("xvsf", operand->bank) || !operand->use || !strchr("rwacbl", operand->use)) return false;
  bool narrow = text[2] == 'q';
  if (operand->bank != 'f' && sscanf(text + 2 + narrow, "%u+%u", &shift, &count) < 1) return false;
  if ((shift > 27 && shift < 32) || shift > 63 || !count || count > 8) return false;
  if (operand->use == 'l') operand->mask = 15;
  if (narrow) operand->mask = 7, operand->first = 8;
  if (shift >= 32) operand->mask = 0, operand->first = (uint8_t)(shift - 32), shift = 0;
  operand->shift = (uint8_t)shift, operand->count = (uint8_t)count;
  return true;
}

static bool read_operands(char *text, Price *price) {
  char *rest = NULL;
  for (char *word = strtok_r(text, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
    if (price->num_operands == OPERANDS || !read_operand(word, price->operands + price->num_operands)) return false;
    price->num_operands++;
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
  if (table->num_prices % 256 == 0) {
    Price *more = realloc(table->prices, (table->num_prices + 256) * sizeof *more);
    if (!more) return false;
    table->prices = more;
  }
  table->prices[table->num_prices++] = *price;
  if (!table->slot || price->use[0] < table->slot) table->slot = price->use[0];
  return true;
}

static bool read_numbers(const char *text, size_t count, uint64_t *numbers) {
  for (size_t i = 0; i < count; i++) {
    char *end = NULL;
    numbers[i] = strtoull(text, &end, 10);
    if (end == text) return false;
    text = end;
  }
  return true;
}

static bool read_line(char *line, PriceTable *table, uint32_t *when) {
  Price price;
  char *rest = NULL;
  unsigned long long number = 0;
  bool unknown = !strncmp(line, "other ", 6);
  if (unknown || !strncmp(line, "price ", 6)) {
    if (!read_price(line + 6, table->num_resources, &price)) return false;
    price.unknown = unknown, price.when = *when;
    return keep(table, &price);
  }
  if (!strncmp(line, "resources ", 10)) {
    for (char *word = strtok_r(line + 10, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) table->num_resources++;
    return table->num_resources && table->num_resources <= RESOURCES;
  }
  if (!strncmp(line, "queues ", 7)) {
    if (!read_numbers(line + 7, table->num_resources, table->queues)) return false;
    for (size_t r = 0; r < table->num_resources; r++)
      if (table->queues[r] > LARGEST_QUEUE) return false;
    return true;
  }
  if (!strncmp(line, "either ", 7)) {
    uint64_t numbers[3];
    if (table->num_either == EITHERS || !read_numbers(line + 7, 3, numbers)) return false;
    for (size_t i = 0; i < 3; i++)
      if (numbers[i] >= table->num_resources || (i && !table->queues[numbers[i]])) return false;
    table->either[table->num_either++] = (Either){numbers[0], {numbers[1], numbers[2]}};
    return true;
  }
  if (!strncmp(line, "taken ", 6)) return read_numbers(line + 6, JUMP_KINDS, table->taken);
  if (sscanf(line, "when %x", when) == 1) return true;
  if (sscanf(line, "window %llu", &number) == 1) table->window = number;
  else if (sscanf(line, "guess %llu", &number) == 1) table->guess = number;
  else if (sscanf(line, "zero %llu", &number) == 1) table->zero = number;
  else return false;
  return true;
}

bool prices_read(const char *path, PriceTable *table) {
  FILE *file = fopen(path, "r");
  char line[512];
  int at = 0;
  uint32_t when = 0;
  bool right = file != NULL;
  while (right && fgets(line, sizeof line, file)) at++, right = read_line(line, table, &when);
  if (file) fclose(file);
  if (right && table->num_prices && table->window <= LARGEST_WINDOW && !table->prices[table->num_prices - 1].mask) return true;
  fprintf(stderr, "simclock: %s has no table of prices for all instructions (line %d)\n", path, at);
  return false;
}

/* The last price of a table is that of any instruction. */
static const Price *search(const PriceTable *table, uint32_t word, unsigned type) {
  const Price *price = table->prices;
  while ((word & price->mask) != price->value || (price->when && !(price->when >> type & 1))) price++;
  return price;
}

const Price *price_of(const PriceTable *table, uint32_t word, unsigned type) {
  static _Thread_local struct {
    uint32_t word, type;
    const Price *price;
  } recent[1 << 12];
  size_t slot = ((word + type) * 0x9e3779b1u) >> 20;
  if (!recent[slot].price || recent[slot].word != word || recent[slot].type != type) {
    recent[slot].word = word, recent[slot].type = type;
    recent[slot].price = search(table, word, type);
  }
  return recent[slot].price;
}
