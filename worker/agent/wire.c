#include "wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_MESSAGE = 4096 };

static int connection = -1;
static uint8_t input[64 * 1024]; /* received and not yet read */
static size_t input_at, input_end;
static uint64_t packet_left;
static uint8_t *output;
static size_t output_size, output_capacity;

int socket_write(int fd, const void *data, size_t bytes) {
  for (const char *at = data; bytes;) {
    ssize_t put = send(fd, at, bytes, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return -1;
    at += put;
    bytes -= (size_t)put;
  }
  return 0;
}

void wire_open(int fd) { connection = fd; }

/* Take what has come from the socket, at least one byte. */
static size_t receive_some(void *data, size_t bytes) {
  for (;;) {
    ssize_t got = recv(connection, data, bytes, 0);
    if (got > 0) return (size_t)got;
    if (got == 0 || errno != EINTR) _exit(0); /* the client has gone */
  }
}

/* Read through the buffer; large reads go straight to where they belong. */
static void receive(void *data, size_t bytes) {
  for (char *at = data; bytes;) {
    size_t part;
    if (input_at == input_end && bytes >= sizeof input) {
      part = receive_some(at, bytes);
    } else {
      if (input_at == input_end) {
        input_end = receive_some(input, sizeof input);
        input_at = 0;
      }
      part = input_end - input_at < bytes ? input_end - input_at : bytes;
      memcpy(at, input + input_at, part);
      input_at += part;
    }
    at += part;
    bytes -= part;
  }
}

int32_t wire_next(void) {
  do receive(&packet_left, sizeof packet_left);
  while (packet_left == 0);
  return wire_i32();
}

void wire_read(void *data, size_t bytes) {
  if (bytes > packet_left)
    wire_fatal("protocol: the packet ends %llu bytes early", (unsigned long long)(bytes - packet_left));
  receive(data, bytes);
  packet_left -= bytes;
}

int32_t wire_i32(void) {
  int32_t value;
  wire_read(&value, sizeof value);
  return value;
}

uint64_t wire_u64(void) {
  uint64_t value;
  wire_read(&value, sizeof value);
  return value;
}

uint64_t wire_left(void) { return packet_left; }

void wire_skip(void) {
  char waste[4096];
  while (packet_left) wire_read(waste, packet_left < sizeof waste ? (size_t)packet_left : sizeof waste);
}

void reply_begin(int32_t code) {
  output_size = sizeof(uint64_t); /* the packet's length, known at the end */
  reply_i32(code);
}

void reply_put(const void *data, size_t bytes) {
  if (output_size + bytes > output_capacity) {
    size_t capacity = (output_size + bytes) * 2 + 256;
    uint8_t *grown = realloc(output, capacity);
    if (!grown) _exit(1); /* the parent reports the exit */
    output = grown;
    output_capacity = capacity;
  }
  memcpy(output + output_size, data, bytes);
  output_size += bytes;
}

void reply_i32(int32_t value) { reply_put(&value, sizeof value); }

void reply_u64(uint64_t value) { reply_put(&value, sizeof value); }

void reply_send(void) { reply_send_with(NULL, 0); }

void reply_send_with(const void *data, size_t bytes) {
  uint64_t length = output_size - sizeof length + bytes;
  memcpy(output, &length, sizeof length);
  if (socket_write(connection, output, output_size) || socket_write(connection, data, bytes)) _exit(0);
}

int socket_write_exception(int fd, const char *message) {
  struct __attribute__((packed)) {
    uint64_t length;
    int32_t code, count, type;
    uint64_t text_length;
    char text[MAX_MESSAGE];
  } packet = {.code = CODE_EXCEPTION, .count = 1, .type = 8 /* kTVMFFIRawStr */};
  size_t text_length = strnlen(message, sizeof packet.text);
  size_t bytes = offsetof(__typeof__(packet), text) + text_length;
  packet.text_length = text_length;
  packet.length = bytes - sizeof packet.length;
  /* A damaged file's names end up in messages, and Python's side takes nothing but valid text. */
  for (size_t i = 0; i < text_length; i++)
    packet.text[i] = (message[i] >= ' ' && message[i] <= '~') || message[i] == '\n' ? message[i] : '?';
  return socket_write(fd, &packet, bytes);
}

void reply_exception(const char *message) {
  if (socket_write_exception(connection, message)) _exit(0);
}

_Noreturn void wire_fatal(const char *format, ...) {
  char message[512];
  va_list values;
  va_start(values, format);
  vsnprintf(message, sizeof message, format, values);
  va_end(values);
  reply_exception(message);
  _exit(0);
}
