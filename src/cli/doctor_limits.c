// The checks of `doctor` about what holds a sandbox: which cgroup each limit has, and which ids its programs
// have. What is in use comes from a spawner that was really started; why it is not the better one, from the
// facts. Pure functions of both.

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/doctor.h"

static bool is_cgroup(const char *enforcer)
{
        return strncmp(enforcer, "cgroup", strlen("cgroup")) == 0;
}

// Root takes controllers without asking anybody.
static void fix_by_root(const struct doctor *d, struct doctor_finding *f)
{
        doctor_fix(f, "%s%s …   # root hands them out", doctor_sudo(d), doctor_program(d));
}

// The host's controllers are those of version 1, which an ordinary user cannot have.
static void explain_version_1(const struct doctor *d, struct doctor_finding *f, const char *held)
{
        const char *sudo = doctor_sudo(d);
        bool in_container = d->facts.container != DOCTOR_CONTAINER_NONE;

        doctor_found(f, DOCTOR_WARNING,
                     "%s: this host's controllers are on cgroup version 1%s, which only root can hand out",
                     held, d->facts.cgroup2 ? " (its cgroup2 mount has none)" : "");
        const char *parameter =
                d->facts.systemd || in_container ? "systemd.unified_cgroup_hierarchy=1" : "cgroup_no_v1=all";

        if (d->facts.grub || in_container)
                doctor_fix(
                        f,
                        "%s%ssed -i 's/^GRUB_CMDLINE_LINUX=\"/&%s /' /etc/default/grub && %supdate-grub && "
                        "%sreboot",
                        in_container ? "on the container's host: " : "", sudo, parameter, sudo, sudo);
        else
                doctor_advise(f,
                              "add %s to the command line of the kernel, where the boot loader has it, and "
                              "start the host again",
                              parameter);
        if (!in_container)
                fix_by_root(d, f);
}

static void explain_read_only(const struct doctor *d, struct doctor_finding *f, const char *held)
{
        doctor_found(f, DOCTOR_WARNING, "%s: the cgroup mount of this container is read-only", held);
        switch (d->facts.container) {
        case DOCTOR_CONTAINER_PODMAN:
                doctor_fix(f, "podman run --security-opt unmask=/sys/fs/cgroup …");
                break;
        case DOCTOR_CONTAINER_KUBERNETES:
                doctor_advise(f,
                              "give the container a writable cgroup (containerd: cgroup_writable = true in "
                              "its runtime's settings)");
                break;
        default:
                doctor_fix(f, "docker run --security-opt writable-cgroups=true …   # Docker 28 or newer");
        }
}

static void explain_none(const struct doctor *d, struct doctor_finding *f, const char *held)
{
        doctor_found(f, DOCTOR_WARNING, "%s: no cgroup hierarchy with a controller is mounted here", held);
        if (d->facts.container != DOCTOR_CONTAINER_NONE)
                doctor_fix(f, "docker run --cgroupns=private --security-opt writable-cgroups=true …   # "
                              "Docker 28 or newer");
        else
                doctor_fix(f, "%smount -t cgroup2 none /sys/fs/cgroup", doctor_sudo(d));
}

// Some controllers are handed down to us and some are not.
static void explain_partial(const struct doctor *d, struct doctor_finding *f, const char *held)
{
        const char *sudo = doctor_sudo(d);
        const struct {
                const char *name, *by;
        } limits[] = {{"memory", d->host.memory}, {"cpu", d->host.cpu}, {"pids", d->host.pids}};
        _cleanup_buf_ struct sr_buf missing = {0};

        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
                if (!is_cgroup(limits[i].by))
                        sr_buf_printf(&missing, "%s%s", missing.len > 0 ? ", " : "", limits[i].name);

        doctor_found(f, DOCTOR_WARNING, "%s: not handed down to us, of the controllers: %s", held,
                     missing.data);
        if (!d->facts.systemd || d->facts.uid == 0) {
                doctor_advise(f, "hand them down: write them to cgroup.subtree_control of the cgroups above");
                return;
        }
        // systemd before 252 gives users memory and pids alone.
        doctor_fix(
                f,
                "%smkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu memory "
                "pids\\n' | %stee /etc/systemd/system/user@.service.d/delegate.conf && %ssystemctl "
                "daemon-reload && %ssystemctl restart user@%u.service   # ends this user's sessions",
                sudo, sudo, sudo, sudo, (unsigned)d->facts.uid);
}

// An ordinary user on cgroup2: systemd hands cgroups out, to services that ask and over the user's own bus.
static void explain_user(const struct doctor *d, struct doctor_finding *f, const char *held)
{
        const struct doctor_facts *facts = &d->facts;
        const char *sudo = doctor_sudo(d), *user = facts->user;

        if (!facts->systemd) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: there is no systemd here that could give an ordinary user a cgroup", held);
                fix_by_root(d, f);
        } else if (!facts->sd_bus) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: this program was built without sd-bus, so it cannot ask systemd for a "
                             "cgroup",
                             held);
                doctor_fix(f, "%sapt-get install libsystemd-dev, then build it again", sudo);
        } else if (!facts->libsystemd) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: the library libsystemd.so.0, which asks systemd for a cgroup, is not "
                             "installed",
                             held);
                doctor_fix(f, "%sapt-get install libsystemd0", sudo);
        } else if (user == NULL && !facts->user_bus) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: the uid %u has no name in /etc/passwd, so systemd runs nothing for it that "
                             "could give a cgroup",
                             held, (unsigned)facts->uid);
                doctor_fix_name(d, f, "");
        } else if (!facts->user_manager) {
                // A service may have a cgroup of its own to divide, or ask the systemd of its user.
                doctor_found(f, DOCTOR_WARNING,
                             "%s: no systemd of the user %s is running that could give a cgroup%s%s", held,
                             user != NULL ? user : "without a name",
                             facts->unit != NULL ? ", and none is delegated to the service " : "",
                             facts->unit != NULL ? facts->unit : "");
                if (facts->unit != NULL)
                        doctor_fix_unit(d, f, "Delegate=yes");
                doctor_fix(f, "%sloginctl enable-linger %s", sudo, user != NULL ? user : "");
                if (facts->unit == NULL)
                        doctor_fix(f, "%ssystemd-run --uid=%u --same-dir --property=Delegate=yes --pty %s …",
                                   sudo, (unsigned)facts->uid, doctor_program(d));
        } else if (!facts->user_bus) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: the systemd of the user %s cannot be reached: there is no /run/user/%u/bus",
                             held, user, (unsigned)facts->uid);
                doctor_fix(f, "%sapt-get install dbus-user-session && %ssystemctl restart user@%u.service",
                           sudo, sudo, (unsigned)facts->uid);
        } else {
                doctor_found(f, DOCTOR_WARNING, "%s: %s", held,
                             d->host.limits_why != NULL ? d->host.limits_why : "systemd gave no cgroup");
                if (facts->unit != NULL)
                        doctor_fix_unit(d, f, "Delegate=yes");
                doctor_fix(f, "systemctl --user daemon-reexec");
                doctor_fix(f, "journalctl --user -b -n 50   # may have the reason");
        }
}

static void explain_root(const struct doctor *d, struct doctor_finding *f, const char *held)
{
        doctor_found(f, DOCTOR_WARNING, "%s: %s", held,
                     d->host.limits_why != NULL ? d->host.limits_why : "no cgroup could be made");
        // Within a container the cgroup at the top holds processes, and one that does hands nothing on.
        if (d->facts.container != DOCTOR_CONTAINER_NONE && *d->facts.cgroup_controllers != '\0')
                doctor_fix(f, "first, in the container: mkdir -p /sys/fs/cgroup/init && while read -r p; do "
                              "echo \"$p\" >/sys/fs/cgroup/init/cgroup.procs; done "
                              "</sys/fs/cgroup/cgroup.procs; echo +memory +cpu +pids "
                              ">/sys/fs/cgroup/cgroup.subtree_control");
        else if (d->facts.unit != NULL)
                doctor_fix_unit(d, f, "Delegate=yes");
}

void doctor_check_limits(const struct doctor *d, struct doctor_finding *f)
{
        const struct sr_run_host *host = &d->host;
        const struct doctor_facts *facts = &d->facts;

        if (d->runner == NULL) {
                doctor_found(f, DOCTOR_WARNING, "not known, because no sandbox can be made");
                return;
        }

        _cleanup_free_ char *held =
                sr_asprintf("memory: %s, cpu: %s, pids: %s", host->memory, host->cpu, host->pids);
        unsigned count = is_cgroup(host->memory) + is_cgroup(host->cpu) + is_cgroup(host->pids);

        if (count == 3)
                doctor_found(f, DOCTOR_OK, "%s", held);
        else if (facts->cgroup_read_only && facts->container != DOCTOR_CONTAINER_NONE)
                explain_read_only(d, f, held);
        else if (facts->cgroup1 && *facts->cgroup_controllers == '\0' &&
                 (facts->uid != 0 || facts->root_outside != 0))
                explain_version_1(d, f, held);
        else if (!facts->cgroup1 && *facts->cgroup_controllers == '\0')
                explain_none(d, f, held);
        else if (count > 0)
                explain_partial(d, f, held);
        else if (facts->uid != 0)
                explain_user(d, f, held);
        else
                explain_root(d, f, held);
        // sandbox.strict_limits refuses every run then.
        if (count < 3 && d->config->strict_limits)
                f->state = DOCTOR_ERROR;
}

static void check_ids_of_root(const struct doctor *d, struct doctor_finding *f)
{
        uint32_t base = d->config->root_id_base, last = base + 65535;

        if (d->facts.root_ids_mapped) {
                doctor_found(f, DOCTOR_OK,
                             "range: programs run with host ids of their own from %u on, which own nothing",
                             base);
                return;
        }
        if (d->facts.root_outside == 0) {
                doctor_found(
                        f, DOCTOR_ERROR,
                        "this root is the host's, but the ids %u to %u are not mapped here, and programs "
                        "are never run as root",
                        base, last);
                doctor_advise(f, "start it as an ordinary user");
                doctor_advise(f,
                              "--set sandbox.root_id_base=N, the first of 65536 ids that /proc/self/uid_map "
                              "has and nobody uses");
                return;
        }
        doctor_found(
                f, DOCTOR_WARNING,
                "single: programs run with the id of this root, who is the ordinary user %u outside this "
                "container; it has no ids %u to %u to give them",
                d->facts.root_outside, base, last);
        doctor_advise(f, "start it as an ordinary user of the container who has a range in the container's "
                         "/etc/subuid and /etc/subgid");
}

// A command that gives the user ids; what must come before it, or "".
static void fix_range(const struct doctor *d, struct doctor_finding *f, const char *before)
{
        if (d->facts.ids_command != NULL)
                doctor_fix(f, "%s%s%s", before, doctor_sudo(d), d->facts.ids_command);
        else
                doctor_fix(
                        f,
                        "%sgive the user %s a line in /etc/subuid and in /etc/subgid (man 5 subuid), of at "
                        "least %u ids that nobody else has",
                        before, d->facts.user, sr_run_ids_needed());
}

// What is wrong with the ranges of the user; NULL when nothing is.
static char *fault_of_ranges(const struct doctor_facts *facts)
{
        uint64_t needed = sr_run_ids_needed();
        bool uids = facts->subuid_count < needed;
        const char *file = uids ? "/etc/subuid" : "/etc/subgid";
        uint64_t count = uids ? facts->subuid_count : facts->subgid_count;

        if (count >= needed)
                return NULL;
        if (count == 0)
                return sr_asprintf("the user %s has no range in %s", facts->user, file);
        return sr_asprintf("the user %s has a range of %" PRIu64 " ids in %s, and %" PRIu64 " are needed",
                           facts->user, count, file, needed);
}

static void explain_single(const struct doctor *d, struct doctor_finding *f)
{
        static const char *const held = "single: programs run with the id of this user, kept apart by "
                                        "namespaces and the system call filter alone";
        const struct doctor_facts *facts = &d->facts;
        const char *sudo = doctor_sudo(d);
        _cleanup_free_ char *ranges = NULL;

        _cleanup_free_ char *install = sr_asprintf("%sapt-get install uidmap && ", sudo);

        if (facts->user != NULL)
                ranges = fault_of_ranges(facts);
        if (facts->no_new_privs) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: this was started with no_new_privs, under which newuidmap can do nothing",
                             held);
                if (facts->unit != NULL || facts->user_unit != NULL)
                        doctor_fix_unit(d, f, "NoNewPrivileges=no");
                else if (facts->container == DOCTOR_CONTAINER_DOCKER ||
                         facts->container == DOCTOR_CONTAINER_PODMAN)
                        doctor_fix(f, "%s run …   # without --security-opt no-new-privileges",
                                   facts->container == DOCTOR_CONTAINER_DOCKER ? "docker" : "podman");
                else
                        doctor_advise(f, "start it without no_new_privs (setpriv --no-new-privs, systemd's "
                                         "NoNewPrivileges=, a container's allowPrivilegeEscalation: false)");
        } else if (facts->user == NULL) {
                doctor_found(
                        f, DOCTOR_WARNING,
                        "%s: the uid %u has no name in /etc/passwd, and newuidmap maps ids for users with "
                        "a name alone",
                        held, (unsigned)facts->uid);
                // useradd gives it ranges too, where the files are there.
                _cleanup_free_ char *before =
                        sr_asprintf("%s%stouch /etc/subuid /etc/subgid && ",
                                    facts->has_newuidmap && facts->has_newgidmap ? "" : install, sudo);

                doctor_fix_name(d, f, before);
        } else if (!facts->has_newuidmap || !facts->has_newgidmap) {
                doctor_found(f, DOCTOR_WARNING, "%s: %s is not installed", held,
                             facts->has_newuidmap ? "newgidmap" : "newuidmap");
                if (ranges != NULL)
                        fix_range(d, f, install);
                else
                        doctor_fix(f, "%sapt-get install uidmap", sudo);
        } else if (ranges != NULL) {
                doctor_found(f, DOCTOR_WARNING, "%s: %s", held, ranges);
                fix_range(d, f, "");
        } else if (facts->mappers_plain) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: newuidmap or newgidmap has neither the set-id bit nor capabilities", held);
                doctor_fix(f, "%sapt-get install --reinstall uidmap", sudo);
        } else if (facts->mappers_nosuid) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: newuidmap or newgidmap is on a file system that is mounted nosuid", held);
                doctor_fix(f, "%smount -o remount,suid \"$(findmnt -n -o TARGET -T /usr/bin/newuidmap)\"",
                           sudo);
        } else if (facts->gid != facts->primary_gid) {
                doctor_found(
                        f, DOCTOR_WARNING,
                        "%s: newuidmap works for a user in its own group alone, which is %u, but this was "
                        "started with group %u",
                        held, (unsigned)facts->primary_gid, (unsigned)facts->gid);
                if (facts->container == DOCTOR_CONTAINER_DOCKER ||
                    facts->container == DOCTOR_CONTAINER_PODMAN)
                        doctor_fix(f, "%s run --user %u:%u …",
                                   facts->container == DOCTOR_CONTAINER_DOCKER ? "docker" : "podman",
                                   (unsigned)facts->uid, (unsigned)facts->primary_gid);
                else if (facts->unit != NULL)
                        doctor_fix_unit(d, f, "Group=");
                else
                        doctor_advise(f, "start it with group %u", (unsigned)facts->primary_gid);
        } else if (facts->mappers_as_root && facts->root_is_weak) {
                doctor_found(f, DOCTOR_WARNING,
                             "%s: newuidmap works as root here, but root has no CAP_SYS_ADMIN (it is not in "
                             "this process's bounding set)",
                             held);
                doctor_fix(f,
                           "%s%schmod u-s /usr/bin/newuidmap /usr/bin/newgidmap && %ssetcap cap_setuid+ep "
                           "/usr/bin/newuidmap && %ssetcap cap_setgid+ep /usr/bin/newgidmap",
                           facts->container != DOCTOR_CONTAINER_NONE ? "in the container's image: " : "",
                           sudo, sudo, sudo);
        } else {
                doctor_found(f, DOCTOR_WARNING, "%s: %s", held,
                             d->host.ids_why != NULL ? d->host.ids_why : "newuidmap did not work");
        }
}

void doctor_check_ids(const struct doctor *d, struct doctor_finding *f)
{
        // Without a runner root's case still tells why there is none.
        if (d->facts.uid == 0)
                check_ids_of_root(d, f);
        else if (d->runner == NULL)
                doctor_found(f, DOCTOR_WARNING, "not known, because no sandbox can be made");
        else if (d->host.own_ids)
                doctor_found(f, DOCTOR_OK,
                             "range: each program has a host id of its own out of /etc/subuid, which owns "
                             "nothing");
        else
                explain_single(d, f);
}
