// What `doctor` explains things with: settings and circumstances of the host, read from files. They decide
// nothing; what works is tried (host_trial.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Kinds of namespaces that a limit in /proc/sys/user counts.
enum doctor_namespace {
        DOCTOR_NS_USER,
        DOCTOR_NS_MOUNT,
        DOCTOR_NS_PID,
        DOCTOR_NS_NET,
        DOCTOR_NS_IPC,
        DOCTOR_NS_UTS,
        DOCTOR_NS_CGROUP,
        DOCTOR_NS_COUNT,
};

enum doctor_container {
        DOCTOR_CONTAINER_NONE,
        DOCTOR_CONTAINER_DOCKER,
        DOCTOR_CONTAINER_PODMAN,
        DOCTOR_CONTAINER_KUBERNETES,
        DOCTOR_CONTAINER_OTHER,
};

struct doctor_facts {
        // who and where
        uid_t uid; // effective
        gid_t gid;
        char *user; // its name, NULL when it has none
        enum doctor_container container;
        char *unit;      // the system service of systemd's that this process is in, NULL when in none
        char *user_unit; // the same of the user's own systemd
        bool in_chroot;
        char *os_id, *os_version; // ID and VERSION_ID of /etc/os-release, NULL when not given
        char *programs;           // an AppArmor pattern of the paths of our programs, NULL when not known

        // the kernel; a switch that it does not have is -1
        char *kernel_release; // "6.1.0-9-amd64", NULL when not known
        unsigned kernel_major, kernel_minor;
        bool no_new_privs;
        bool filtered; // a system call filter of somebody else's is over this process
        bool has_user_namespaces;
        int64_t max_namespaces[DOCTOR_NS_COUNT];
        int64_t unprivileged_userns_clone;
        int64_t apparmor_restriction;
        bool has_apparmor_profile;

        // /proc
        char **covered; // mount points below /proc, NULL when there are none
        bool proc_read_only;

        // cgroups
        bool cgroup1;             // a hierarchy with one of our controllers is mounted
        bool cgroup2;             // mounted
        char *cgroup_controllers; // those of ours that what is visible of cgroup2 has: "memory, pids"; or ""
        bool cgroup_read_only;    // the mount is
        bool grub;                // boots the host
        bool systemd;             // runs the host
        bool user_manager;        // of this user is running
        bool user_bus;            // is there to talk to it
        bool libsystemd;          // the library is there
        bool sd_bus;              // this program was built to use it

        // ids
        bool has_newuidmap, has_newgidmap;
        bool mappers_plain;   // one has neither the set-id bit nor capabilities
        bool mappers_as_root; // both work by the set-id bit, not by capabilities
        bool root_is_weak;    // even root would lack CAP_SYS_ADMIN among this process's descendants
        bool mappers_nosuid;  // one is on a file system where those do not count
        gid_t primary_gid;    // of the user, by the password database; gid when that does not have the user
        uint64_t subuid_count, subgid_count; // of this user's largest range
        char *ids_command;     // for root: gives this user ranges that nobody has; NULL without a name or ids
        bool root_ids_mapped;  // all that sandboxes started by root use
        uint32_t root_outside; // what id 0 is outside this user namespace
};

// Reads them below the directory `root` ("" for the host itself). root_id_base is the first of the ids that
// sandboxes started by root use. Never fails: what cannot be read is not there.
void doctor_facts_read(const char *root, uint32_t root_id_base, struct doctor_facts *ret);
void doctor_facts_clear(struct doctor_facts *facts);
// "mnt" as in /proc/sys/user/max_mnt_namespaces.
const char *doctor_namespace_name(enum doctor_namespace kind);
