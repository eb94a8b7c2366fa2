#include "sandbox/filter/table.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

// clone(2) takes no CLONE_NEWTIME: its bit belongs to the exit signal there.
#define NEW_NAMESPACES                                                                                       \
        (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |        \
         CLONE_NEWNET)

// Requests a program makes of pipes, files, sockets and the few devices there are.
static const uint32_t ioctls[] = {
        TCGETS,
        0x802c542a /* TCGETS2, which no header gives beside termios.h */,
        TIOCGWINSZ,
        TIOCGPGRP,
        TIOCOUTQ,
        FIONREAD,
        FIONBIO,
        FIOASYNC,
        FIOCLEX,
        FIONCLEX,
        FIOQSIZE,
        FS_IOC_GETFLAGS,
        FICLONE,
        RNDGETENTCNT,
        // Looking at the loopback interface.
        SIOCGIFNAME,
        SIOCGIFCONF,
        SIOCGIFFLAGS,
        SIOCGIFADDR,
        SIOCGIFBRDADDR,
        SIOCGIFNETMASK,
        SIOCGIFMTU,
        SIOCGIFHWADDR,
        SIOCGIFINDEX,
        SIOCATMARK,
};

// They type into a terminal, in the name of who sits at it.
static const uint32_t typing_ioctls[] = {TIOCSTI, TIOCLINUX};

static const uint32_t fcntls[] = {
        F_DUPFD,
        F_GETFD,
        F_SETFD,
        F_GETFL,
        F_SETFL,
        F_GETLK,
        F_SETLK,
        F_SETLKW,
        F_SETOWN,
        F_GETOWN,
        F_SETSIG,
        F_GETSIG,
        F_SETOWN_EX,
        F_GETOWN_EX,
        F_OFD_GETLK,
        F_OFD_SETLK,
        F_OFD_SETLKW,
        F_GETLEASE,
        F_DUPFD_CLOEXEC,
        F_SETPIPE_SZ,
        F_GETPIPE_SZ,
        F_ADD_SEALS,
        F_GET_SEALS,
        F_GET_RW_HINT,
        F_SET_RW_HINT,
        F_GET_FILE_RW_HINT,
        F_SET_FILE_RW_HINT,
};

// Both let a program watch or hold up others that use the same image.
static const uint32_t watching_fcntls[] = {F_SETLEASE, F_NOTIFY};

// Execution domains that change nothing but reported values (as Docker's default profile has them): Linux and
// 32-bit Linux, each with and without the release number of a 2.6 kernel, and the question which one it is.
static const uint32_t personalities[] = {0x0, 0x8, 0x20000, 0x20008, 0xffffffff};

static const uint32_t socket_families[] = {AF_UNIX, AF_INET, AF_INET6};
static const uint32_t unix_family[] = {AF_UNIX};

// Of AF_INET and AF_INET6; of AF_UNIX 0 and 1 (PF_UNIX) are all there is. The kernel would load modules for
// others (SCTP, DCCP, L2TP, SMC). A raw socket needs a capability, which the kernel itself says.
static const uint32_t protocols[] = {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6, IPPROTO_RAW};

// Pages that the host has set aside, for programs that need them: no limit of memory counts them.
#define HUGE_PAGES_OF_MEMFD  0x4u   // MFD_HUGETLB, which needs newer headers than there may be
#define HUGE_PAGES_OF_SHMGET 04000u // SHM_HUGETLB

// init, the one process a program sees that is not of its own making.
static const uint32_t init_pid[] = {1};
static const uint32_t one_process[] = {PRIO_PROCESS};

static const uint32_t socket_level[] = {SOL_SOCKET};
static const uint32_t buffer_sizes[] = {SO_SNDBUF, SO_RCVBUF};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
// clang-format off
#define ONE_OF(number, array) \
        {.test = SR_FILTER_ONE_OF, .argument = (number), .values = (array), .count = COUNT(array)}
#define ANY_BIT(number, bits) {.test = SR_FILTER_ANY_BIT, .argument = (number), .mask = (bits)}
#define IS_NULL(number)       {.test = SR_FILTER_NULL, .argument = (number)}
#define OTHERWISE(value)      {.answer = (value)}
// clang-format on

const struct sr_filter_rule sr_filter_rules[SR_FILTER_RULES] = {
        {
                "clone",
                "processes and threads, but no namespaces",
                {{SR_FILTER_REFUSED, {ANY_BIT(0, NEW_NAMESPACES)}}, OTHERWISE(SR_FILTER_ALLOWED)},
        },
        {
                "mmap",
                "no pages of the host's huge ones, which memory limits do not count",
                {{SR_FILTER_ERRNO(ENOMEM), {ANY_BIT(3, MAP_HUGETLB)}}, OTHERWISE(SR_FILTER_ALLOWED)},
        },
        {
                "memfd_create",
                "the same",
                {{SR_FILTER_ERRNO(ENOMEM), {ANY_BIT(1, HUGE_PAGES_OF_MEMFD)}}, OTHERWISE(SR_FILTER_ALLOWED)},
        },
        {
                "shmget",
                "the same",
                {{SR_FILTER_ERRNO(ENOMEM), {ANY_BIT(2, HUGE_PAGES_OF_SHMGET)}}, OTHERWISE(SR_FILTER_ALLOWED)},
        },
        {
                "ioctl",
                "drivers read far more requests than a program needs; those not known answer as a file does "
                "that does not have them",
                {{SR_FILTER_ALLOWED, {ONE_OF(1, ioctls)}},
                 {SR_FILTER_REFUSED, {ONE_OF(1, typing_ioctls)}},
                 OTHERWISE(SR_FILTER_ERRNO(ENOTTY))},
        },
        {
                "fcntl",
                "all but leases and directory notification; what is not known answers as an older kernel "
                "does",
                {{SR_FILTER_ALLOWED, {ONE_OF(1, fcntls)}},
                 {SR_FILTER_REFUSED, {ONE_OF(1, watching_fcntls)}},
                 OTHERWISE(SR_FILTER_ERRNO(EINVAL))},
        },
        {
                "personality",
                "the others weaken the layout of memory",
                {{SR_FILTER_ALLOWED, {ONE_OF(0, personalities)}}, OTHERWISE(SR_FILTER_REFUSED)},
        },
        {
                "socket",
                "few families and protocols: each of the others is a part of the kernel, or a module that a "
                "request loads",
                {{SR_FILTER_ALLOWED, {ONE_OF(0, socket_families), ONE_OF(2, protocols)}},
                 {SR_FILTER_ERRNO(EPROTONOSUPPORT), {ONE_OF(0, socket_families)}},
                 OTHERWISE(SR_FILTER_ERRNO(EAFNOSUPPORT))},
        },
        {
                "socketpair",
                "the internet families have no pairs",
                {{SR_FILTER_ALLOWED, {ONE_OF(0, unix_family)}}, OTHERWISE(SR_FILTER_ERRNO(EAFNOSUPPORT))},
        },
        {
                "prlimit64",
                "limits may be read of any process and set of all but init: where one id is all there is, a "
                "program could otherwise end it by RLIMIT_CPU and forge its verdict",
                {{SR_FILTER_ALLOWED, {IS_NULL(2)}},
                 {SR_FILTER_REFUSED, {ONE_OF(0, init_pid)}},
                 OTHERWISE(SR_FILTER_ALLOWED)},
        },
        {
                "sched_setaffinity sched_setattr sched_setparam sched_setscheduler",
                "not init's, for the same reason",
                {{SR_FILTER_REFUSED, {ONE_OF(0, init_pid)}}, OTHERWISE(SR_FILTER_ALLOWED)},
        },
        {
                "setpriority",
                "not init's, and not those of a user or group, to which init may belong",
                {{SR_FILTER_REFUSED, {ONE_OF(1, init_pid)}},
                 {SR_FILTER_ALLOWED, {ONE_OF(0, one_process)}},
                 OTHERWISE(SR_FILTER_REFUSED)},
        },
};

const struct sr_filter_rule sr_filter_rules_watched[SR_FILTER_RULES_WATCHED] = {
        {
                "mmap",
                "as in the other profile, and no shared memory without a file: it lives on where no process "
                "shows it",
                {{SR_FILTER_ERRNO(ENOMEM), {ANY_BIT(3, MAP_HUGETLB)}},
                 {SR_FILTER_ERRNO(ENOMEM), {ANY_BIT(3, MAP_SHARED), ANY_BIT(3, MAP_ANONYMOUS)}},
                 OTHERWISE(SR_FILTER_ALLOWED)},
        },
        {
                "setsockopt",
                "buffers stay as large as they are by default, and each socket counts for that much",
                {{SR_FILTER_NOTHING, {ONE_OF(1, socket_level), ONE_OF(2, buffer_sizes)}},
                 OTHERWISE(SR_FILTER_ALLOWED)},
        },
};
