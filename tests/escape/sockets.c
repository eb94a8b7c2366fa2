// Sockets: families that reach past a network namespace, and services of the host and of other sandboxes.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "escape.h"

#define NO_FAMILY ERRORS(EAFNOSUPPORT)

#define FAMILY(function, family, type, protocol)                                                             \
        static void function(struct trial *trial)                                                            \
        {                                                                                                    \
                expect(trial, NULL, socket(family, (type) | SOCK_CLOEXEC, protocol), NO_FAMILY);             \
        }
FAMILY(vsock, AF_VSOCK, SOCK_STREAM, 0)
FAMILY(alg, AF_ALG, SOCK_SEQPACKET, 0)
FAMILY(route, AF_NETLINK, SOCK_RAW, 0)
FAMILY(audit, AF_NETLINK, SOCK_RAW, 9)
FAMILY(uevent, AF_NETLINK, SOCK_RAW, 15)
FAMILY(netfilter, AF_NETLINK, SOCK_RAW, 12)
FAMILY(packet, AF_PACKET, SOCK_RAW, 0x0300)
FAMILY(bluetooth, AF_BLUETOOTH, SOCK_RAW, 1)
FAMILY(can, AF_CAN, SOCK_RAW, 1)
FAMILY(tipc, AF_TIPC, SOCK_SEQPACKET, 0)
FAMILY(rds, AF_RDS, SOCK_SEQPACKET, 0)
FAMILY(xdp, AF_XDP, SOCK_RAW, 0)
FAMILY(key, AF_KEY, SOCK_RAW, 2)
// The kernel reads 32 bits of the family.
static void high_bits(struct trial *trial)
{
        expect(trial, "vsock", syscall(SYS_socket, 1ul << 32 | AF_VSOCK, SOCK_STREAM, 0),
               ERRORS(EAFNOSUPPORT));
        expect(trial, "netlink", syscall(SYS_socket, 1ul << 32 | AF_NETLINK, SOCK_RAW, 0),
               ERRORS(EAFNOSUPPORT));
}

static void every_family(struct trial *trial)
{
        for (int family = 0; family < 64; family++) {
                char label[32];

                if (family == AF_UNIX || family == AF_INET || family == AF_INET6)
                        continue;
                snprintf(label, sizeof(label), "family %d", family);
                for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++)
                        expect(trial, label, socket(family, type | SOCK_CLOEXEC, 0), NO_FAMILY);
        }
}

static void raw(struct trial *trial)
{
        expect(trial, "IPv4", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP), WALL);
        expect(trial, "IPv6", socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6), WALL);
        expect(trial, "whole packets", socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW), WALL);
        expect(trial, "obsolete packet", socket(AF_INET, SOCK_PACKET | SOCK_CLOEXEC, 0x0300),
               ERRORS(EPERM, ENOSYS, EACCES, EAFNOSUPPORT, EPROTONOSUPPORT, EINVAL, ESOCKTNOSUPPORT));
}

// Each of these is a module that a request loads.
static void other_protocols(struct trial *trial)
{
        static const struct {
                const char *name;
                int type, protocol;
        } kinds[] = {{"sctp", SOCK_STREAM, 132},
                     {"sctp packets", SOCK_SEQPACKET, 132},
                     {"dccp", 6, 33},
                     {"mptcp", SOCK_STREAM, 262},
                     {"l2tp", SOCK_DGRAM, 115},
                     {"udplite", SOCK_DGRAM, 136},
                     {"smc", SOCK_STREAM, 256}};

        for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
                expect(trial, kinds[i].name, socket(AF_INET, kinds[i].type | SOCK_CLOEXEC, kinds[i].protocol),
                       ERRORS(EPROTONOSUPPORT));
                expect(trial, kinds[i].name,
                       socket(AF_INET6, kinds[i].type | SOCK_CLOEXEC, kinds[i].protocol),
                       ERRORS(EPROTONOSUPPORT));
        }
}

static void pairs(struct trial *trial)
{
        int ends[2];

        expect(trial, "vsock", socketpair(AF_VSOCK, SOCK_STREAM, 0, ends), NO_FAMILY);
        expect(trial, "tipc", socketpair(AF_TIPC, SOCK_STREAM, 0, ends), NO_FAMILY);
}

static void connect_port(struct trial *trial, const char *host, const char *port, const int *errors)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        inet_pton(AF_INET, host, &address.sin_addr);
        // Not blocking: what begins to connect has found a way.
        expect(trial, host, connect(fd, (struct sockaddr *)&address, sizeof(address)), errors);
        close(fd);
}

static void host_loopback(struct trial *trial)
{
        const char *port = know(trial, "ESCAPE_PORT");

        if (port == NULL)
                return;
        // On loopback a connection is made or refused at once.
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        expect(trial, "127.0.0.1", connect(fd, (struct sockaddr *)&address, sizeof(address)),
               ERRORS(ECONNREFUSED));
        close(fd);
}

static void outside(struct trial *trial)
{
        static const char *const hosts[] = {"192.0.2.1", "10.0.2.2", "172.17.0.1", "169.254.169.254",
                                            "8.8.8.8"};

        for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++)
                connect_port(trial, hosts[i], "80", ERRORS(ENETUNREACH, EHOSTUNREACH));
}

static void outside_datagram(struct trial *trial)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), yes = 1;

        inet_pton(AF_INET, "8.8.8.8", &address.sin_addr);
        expect(trial, "unicast", sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)),
               ERRORS(ENETUNREACH));
        setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof(yes));
        address.sin_addr.s_addr = htonl(INADDR_BROADCAST);
        expect(trial, "broadcast", sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)),
               ERRORS(ENETUNREACH));
        inet_pton(AF_INET, "224.0.0.251", &address.sin_addr);
        expect(trial, "multicast", sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)),
               ERRORS(ENETUNREACH));
        close(fd);
}

static socklen_t abstract_name(struct sockaddr_un *address, const char *name)
{
        *address = (struct sockaddr_un){.sun_family = AF_UNIX};
        snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s", name);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static void connect_abstract(struct trial *trial, const char *name)
{
        struct sockaddr_un address;
        socklen_t length = abstract_name(&address, name);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        expect(trial, NULL, connect(fd, (struct sockaddr *)&address, length), ERRORS(ECONNREFUSED, EPERM));
        close(fd);
}

static void host_abstract(struct trial *trial)
{
        const char *name = know(trial, "ESCAPE_SOCKET");

        if (name != NULL)
                connect_abstract(trial, name);
}

static void host_socket(struct trial *trial)
{
        const char *directory = know(trial, "ESCAPE_DIRECTORY");
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (directory != NULL) {
                snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
                expect(trial, NULL, connect(fd, (struct sockaddr *)&address, sizeof(address)),
                       ERRORS(ENOENT, EACCES));
        }
        close(fd);
}

// The partner's listener stays with it until it is killed.
static void listen_abstract(struct trial *trial)
{
        struct sockaddr_un address;
        socklen_t length = abstract_name(&address, "escape-pair");
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, 4) < 0)
                decide(trial, UNDECIDED, "listening");
}

static void reach_abstract(struct trial *trial)
{
        connect_abstract(trial, "escape-pair");
}

static void listen_port(struct trial *trial)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(5555)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4) < 0)
                decide(trial, UNDECIDED, "listening: %s", strerrorname_np(errno));
}

static void reach_port(struct trial *trial)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(5555)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        expect(trial, NULL, connect(fd, (struct sockaddr *)&address, sizeof(address)), ERRORS(ECONNREFUSED));
        close(fd);
}

static void interface(struct trial *trial)
{
        static const struct {
                const char *name;
                unsigned long request;
        } requests[] = {{"flags", SIOCSIFFLAGS}, {"address", SIOCSIFADDR},
                        {"mtu", SIOCSIFMTU},     {"hardware", SIOCSIFHWADDR},
                        {"route", SIOCADDRT},    {"bridge", SIOCBRADDBR},
                        {"arp", SIOCSARP},       {"netns", 0x894c /* SIOCGSKNS */}};
        struct ifreq request = {.ifr_name = "lo"};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
                expect(trial, requests[i].name, ioctl(fd, requests[i].request, &request),
                       ERRORS(EPERM, ENOTTY));
        close(fd);
}

static void forged_credentials(struct trial *trial)
{
        struct ucred wrong = {.pid = 1, .uid = 0, .gid = 0};
        union {
                struct cmsghdr head;
                char bytes[CMSG_SPACE(sizeof(struct ucred))];
        } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(wrong)),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_CREDENTIALS}};
        struct iovec bytes = {(void *)(uintptr_t) "x", 1};
        struct msghdr message = {.msg_iov = &bytes,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof(control)};
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) < 0) {
                decide(trial, UNDECIDED, "socketpair");
                return;
        }
        memcpy(CMSG_DATA(&control.head), &wrong, sizeof(wrong));
        expect(trial, NULL, sendmsg(ends[0], &message, 0), ERRORS(EPERM, EINVAL));
}

static void socket_options(struct trial *trial)
{
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), value = 1 << 20;

        expect(trial, "debug", setsockopt(fd, SOL_SOCKET, SO_DEBUG, &value, sizeof(value)),
               ERRORS(EACCES, EPERM));
        expect(trial, "buffer past the limit",
               setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &value, sizeof(value)), ERRORS(EPERM));
        expect(trial, "mark", setsockopt(fd, SOL_SOCKET, SO_MARK, &value, sizeof(value)), ERRORS(EPERM));
        expect(trial, "iptables", setsockopt(fd, IPPROTO_IP, 64, &value, sizeof(value)), ERRORS(EPERM));
        close(fd);
}

static const struct attempt attempts[] = {
        {"socket-vsock", ALONE, "a socket to the hypervisor", vsock, NULL},
        {"socket-alg", ALONE, "a socket into the kernel's ciphers", alg, NULL},
        {"socket-netlink-route", ALONE, "a netlink socket for routes", route, NULL},
        {"socket-netlink-audit", ALONE, "a netlink socket for the audit log", audit, NULL},
        {"socket-netlink-uevent", ALONE, "a netlink socket for device events", uevent, NULL},
        {"socket-netlink-netfilter", ALONE, "a netlink socket for the packet filter", netfilter, NULL},
        {"socket-packet", ALONE, "a packet socket", packet, NULL},
        {"socket-raw", ALONE, "a raw IP socket", raw, NULL},
        {"socket-bluetooth", ALONE, "a Bluetooth socket", bluetooth, NULL},
        {"socket-can", ALONE, "a CAN socket", can, NULL},
        {"socket-tipc", ALONE, "a TIPC socket", tipc, NULL},
        {"socket-rds", ALONE, "an RDS socket", rds, NULL},
        {"socket-xdp", ALONE, "an XDP socket", xdp, NULL},
        {"socket-key", ALONE, "an IPsec key socket", key, NULL},
        {"socket-every-family", ALONE, "a socket of any other family", every_family, NULL},
        {"socket-high-bits", ALONE, "a family named with a bit the kernel drops", high_bits, NULL},
        {"socket-protocol", ALONE, "SCTP, DCCP, MPTCP, L2TP and other protocols", other_protocols, NULL},
        {"socketpair-family", ALONE, "a pair of sockets of another family", pairs, NULL},
        {"socket-options", ALONE, "options that need a privilege", socket_options, NULL},
        {"socket-credentials", ALONE, "claim to be root over a socket", forged_credentials, NULL},
        {"interface-change", ALONE, "change the network interface", interface, NULL},
        {"network-connect", ALONE, "connect to the network, the host's bridge, cloud metadata", outside,
         NULL},
        {"network-send", ALONE, "send datagrams, broadcasts, multicasts", outside_datagram, NULL},
        {"host-loopback", ALONE, "connect to a service on the host's loopback", host_loopback, NULL},
        {"host-abstract-socket", ALONE, "connect to an abstract socket of the host", host_abstract, NULL},
        {"host-socket", ALONE, "connect to a socket of the host by its path", host_socket, NULL},
        {"pair-abstract-socket", PAIR, "connect to an abstract socket of another sandbox", reach_abstract,
         listen_abstract},
        {"pair-loopback", PAIR, "connect to the loopback of another sandbox", reach_port, listen_port},
};
SUBJECT(sockets_subject, "sockets and network", attempts);
