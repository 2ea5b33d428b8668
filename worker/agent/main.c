/* tilefleet-agent: serves one board to TVM's RPC client.
 *
 * RPC access is the right to run any code, so the agent listens on 127.0.0.1 only, listens elsewhere with a
 * token that every client has to know, or does not listen at all but dials out to the coordinator's gateway.
 * It serves one session after the other, each in a child of its own, so a crashing candidate never takes the
 * agent down. One that listens says its port in its first line on standard output. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "dial.h"
#include "fast_memory.h"
#include "listen.h"
#include "session.h"
#include "simulation.h"
#include "token.h"

enum { MAX_KEY = 64 };

typedef struct {
  const char *bind; /* the address to listen on */
  int port;         /* 0: any free one */
  char *dial;       /* NULL, or HOST:PORT of a gateway */
  const char *token_file;
  pid_t parent; /* 0, or the process with which the agent dies */
  const char *clock_page; /* NULL, or where a simulated board's clock publishes */
  size_t fast_bytes;      /* of fast memory; 0: there is none */
  SessionOptions session;
} Options;

static _Noreturn void usage(const char *problem, const char *argument) {
  fprintf(stderr,
          "tilefleet-agent: %s%s\n"
          "usage: tilefleet-agent [--key NAME] [--bind ADDRESS] [--port N] [--token-file FILE] [OPTIONS]\n"
          "       tilefleet-agent --key NAME --dial HOST:PORT --token-file FILE [OPTIONS]\n"
          "options: --threads N --memory-mb N --parent PID --clock-page FILE --fast-memory-kb N\n",
          problem, argument);
  exit(2);
}

static long number(const char *option, const char *text, long most) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno || end == text || *end || value < 0 || value > most) usage("not a valid number for ", option);
  return value;
}

static Options parse(int argc, char **argv) {
  Options options = {.bind = "127.0.0.1", .session = {.key = "", .memory_bytes = (uint64_t)4096 << 20}};
  for (int i = 1; i < argc; i += 2) {
    const char *option = argv[i];
    if (i + 1 == argc) usage("no value for ", option);
    const char *value = argv[i + 1];
    if (!strcmp(option, "--port")) options.port = (int)number(option, value, 65535);
    else if (!strcmp(option, "--key")) options.session.key = value;
    else if (!strcmp(option, "--threads")) options.session.threads = (int)number(option, value, 256);
    else if (!strcmp(option, "--memory-mb"))
      options.session.memory_bytes = (uint64_t)number(option, value, 1 << 24) << 20;
    else if (!strcmp(option, "--parent")) options.parent = (pid_t)number(option, value, 1 << 30);
    else if (!strcmp(option, "--bind")) options.bind = value;
    else if (!strcmp(option, "--dial")) options.dial = argv[i + 1];
    else if (!strcmp(option, "--token-file")) options.token_file = value;
    else if (!strcmp(option, "--clock-page")) options.clock_page = value;
    else if (!strcmp(option, "--fast-memory-kb")) options.fast_bytes = (size_t)number(option, value, 1 << 20) << 10;
    else usage("unknown option ", option);
  }
  return options;
}

/* Serve as a client of the gateway, or as a server with a token that makes a secret of the key. */
static _Noreturn void serve(Options *options) {
  static char token[TOKEN_MAX + 1];
  if (options->token_file) {
    size_t length = strlen(options->session.key);
    if (!length || length > MAX_KEY || strchr(options->session.key, ' '))
      usage("with --token-file also a --key of at most 64 characters is needed", "");
    if (token_read(options->token_file, token)) exit(1);
  }
  if (options->dial) {
    if (!options->token_file) usage("with --dial also --token-file is needed", "");
    const char *port = dial_split(options->dial);
    if (!port) usage("not like HOST:PORT: ", options->dial);
    dial_serve(options->dial, port, token, &options->session);
  }
  if (options->token_file) options->session.token = token;
  listen_serve(options->bind, options->port, &options->session);
}

int main(int argc, char **argv) {
  prctl(PR_SET_DUMPABLE, 0); /* others of this user cannot read its memory, where the token is */
  Options options = parse(argc, argv);
  if (options.parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != options.parent) return 1; /* it died before the line above */
  }
  if (options.clock_page && simulation_open(options.clock_page))
    usage("no simulated clock publishes in ", options.clock_page);
  if (options.fast_bytes && !simulation_active()) usage("only a simulated board has ", "--fast-memory-kb");
  if (options.fast_bytes && fast_memory_open(options.fast_bytes)) usage("no memory for ", "--fast-memory-kb");
  signal(SIGPIPE, SIG_IGN);
  serve(&options);
}
