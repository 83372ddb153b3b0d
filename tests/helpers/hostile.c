/* A candidate that is hostile: its code runs when the library is loaded. It tries what a stranger would, and leaves
   what came of it in the session's folder. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;
static FILE *report;

static void tell(const char *name, long result) {
  fprintf(report, "%s %s\n", name, result < 0 ? strerror(errno) : "reached");
}

static long look(const char *path) {
  char byte;
  int file = open(path, O_RDONLY);
  return file < 0 ? -1 : read(file, &byte, 1) < 0 ? -1 : 0;
}

static long call(int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int sock = socket(AF_INET, SOCK_STREAM, 0);
  return sock < 0 ? -1 : connect(sock, (struct sockaddr *)&to, sizeof to);
}

/* The session's own connection, led elsewhere. */
static long redirect(int port, int fast) {
  struct sockaddr to = {.sa_family = AF_UNSPEC};
  for (int sock = 3; sock < 64; sock++) {
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &size) == 0) {
      if (!fast) return connect(sock, &to, sizeof to);
      return sendto(sock, "x", 1, MSG_FASTOPEN | MSG_DONTWAIT, &to, sizeof to) < 0 && errno == EPERM ? -1 : 0;
    }
  }
  errno = ENOENT;
  return -1;
}

static long secrets(void) {
  for (char **each = environ; *each; each++)
    if (strstr(*each, "KEY") || strstr(*each, "BROKER") || strstr(*each, "DATABASE")) return 0;
  errno = ENOENT;
  return -1;
}

static long folder(const char *path) {
  DIR *found = opendir(path);
  return found ? 0 : -1;
}

static long child(void) {
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  return pid;
}

__attribute__((constructor)) static void attack(void) {
  report = fopen("report", "w");
  if (!report) return;
  char path[64];
  tell("secret", look(SECRET));
  tell("list", folder(FOLDER));
  snprintf(path, sizeof path, "/proc/%d/environ", getppid());
  tell("environ", look(path));
  snprintf(path, sizeof path, "/proc/%d/mem", getppid());
  tell("mem", open(path, O_RDWR));
  tell("own environ", secrets());
  tell("connect", call(PORT));
  tell("redirect", redirect(PORT, 0));
  tell("fast open", redirect(PORT, 1));
  tell("kill", kill(getppid(), 0));
  tell("ptrace", ptrace(PTRACE_SEIZE, getppid(), 0, 0));
  tell("fork", child());
  tell("write", open(FOLDER "/written", O_WRONLY | O_CREAT, 0600));
  int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
  tell("memory", mmap(0, 1L << 40, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? -1 : 0);
  fclose(report);
}
