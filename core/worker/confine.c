/* The seccomp filter of a worker, as plain BPF: few enough rules to be read. Knows system calls and nothing else. */
#include "confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define FIELD(name) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, name))
/* the low half of an argument; both architectures are little-endian */
#define ARG(i) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (i)))
#define FAIL(e) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (e))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* one rule each; the accumulator holds the number of the call */
#define REFUSE(nr, e) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), FAIL(e)
#define ONLY_SELF(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 4), ARG(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, self, 1, 0), FAIL(EPERM), ALLOW

#ifdef ARCH
static int install(struct sock_filter *rules, unsigned short n)
{
	struct sock_fprog all = { n, rules };
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}
#endif

int confine(bool helpers)
{
#ifdef ARCH
	const uint32_t self = (uint32_t)getpid();
	struct sock_filter common[] = {
		FIELD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		FIELD(nr),
#ifdef __x86_64__
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), /* x32: the same calls by other numbers */
		FAIL(ENOSYS),
#endif
		REFUSE(SYS_process_vm_readv, EPERM),
		REFUSE(SYS_process_vm_writev, EPERM),
		REFUSE(SYS_unshare, EPERM),
		REFUSE(SYS_setns, EPERM),
		REFUSE(SYS_mount, EPERM),
		REFUSE(SYS_bpf, EPERM),
		REFUSE(SYS_perf_event_open, EPERM),
		REFUSE(SYS_userfaultfd, EPERM),
		REFUSE(SYS_io_uring_setup, EPERM), /* would get around this filter */
#ifndef PEPSI_SANITIZED /* the leak checker traces its own process */
		REFUSE(SYS_ptrace, EPERM),
#endif
		ALLOW,
	};
	/* whoever has children must be able to end them, and may give them groups of their own */
	struct sock_filter no_signals[] = {
		FIELD(nr),
		ONLY_SELF(SYS_kill),
		ONLY_SELF(SYS_tgkill),
		ONLY_SELF(SYS_rt_sigqueueinfo),
		ONLY_SELF(SYS_rt_tgsigqueueinfo),
		REFUSE(SYS_tkill, EPERM),
		REFUSE(SYS_pidfd_open, EPERM),
		REFUSE(SYS_pidfd_send_signal, EPERM),
		REFUSE(SYS_setpgid, EPERM), /* its group is how it is found when it is to go */
		REFUSE(SYS_setsid, EPERM),
		ALLOW,
	};
#ifndef PEPSI_SANITIZED /* the leak checker and the symbolizer are children */
	/* ENOSYS: glibc falls back to clone() then, whose flags can be looked at */
	struct sock_filter no_children[] = {
		FIELD(nr),
		REFUSE(SYS_clone3, ENOSYS),
		REFUSE(SYS_execve, EPERM),
		REFUSE(SYS_execveat, EPERM),
#ifdef __x86_64__
		REFUSE(SYS_fork, EPERM),
		REFUSE(SYS_vfork, EPERM),
#endif
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		ARG(0),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
		FAIL(EPERM),
		ALLOW,
	};
	if (!helpers && install(no_children, sizeof no_children / sizeof *no_children))
		return -1;
#endif
	if (!helpers && install(no_signals, sizeof no_signals / sizeof *no_signals))
		return -1;
	return install(common, sizeof common / sizeof *common);
#else
	(void)helpers;
	errno = ENOSYS;
	return -1;
#endif
}
