// The checks of `doctor` that are about the kernel and what it lets this user do: from what was tried to why,
// and to the command that changes it. Pure functions of the trial and the facts.

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/doctor.h"

// The oldest Linux that sandboxes work on: mount_setattr(2) came with it.
#define OLDEST_MAJOR 5
#define OLDEST_MINOR 12

static bool is_older(const struct doctor_facts *facts, unsigned major, unsigned minor)
{
        return facts->kernel_release != NULL &&
               (facts->kernel_major < major || (facts->kernel_major == major && facts->kernel_minor < minor));
}

static bool is_os(const struct doctor_facts *facts, const char *id, const char *version)
{
        return facts->os_id != NULL && strcmp(facts->os_id, id) == 0 && facts->os_version != NULL &&
               strcmp(facts->os_version, version) == 0;
}

static void fix_kernel(const struct doctor *d, struct doctor_finding *f)
{
        const char *sudo = doctor_sudo(d);

        if (d->facts.container != DOCTOR_CONTAINER_NONE)
                doctor_advise(f, "a container has its host's kernel: boot the host with Linux 5.12 or newer");
        else if (is_os(&d->facts, "debian", "11"))
                doctor_fix(f, "%sapt-get install -t bullseye-backports linux-image-amd64 && %sreboot", sudo,
                           sudo);
        else if (is_os(&d->facts, "ubuntu", "20.04"))
                doctor_fix(f, "%sapt-get install linux-generic-hwe-20.04 && %sreboot", sudo, sudo);
        else
                doctor_advise(f, "boot Linux 5.12 or newer");
}

// A filter of somebody else's: the container's, or the service's.
static void fix_filter(const struct doctor *d, struct doctor_finding *f)
{
        switch (d->facts.container) {
        case DOCTOR_CONTAINER_DOCKER:
                // Its other defaults stand in the way too.
                doctor_fix(f, "docker run --security-opt seccomp=unconfined --security-opt "
                              "systempaths=unconfined --security-opt apparmor=unconfined …");
                break;
        case DOCTOR_CONTAINER_PODMAN:
                doctor_fix(f, "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL "
                              "--security-opt apparmor=unconfined …");
                break;
        case DOCTOR_CONTAINER_KUBERNETES:
                doctor_advise(f, "in the pod: hostUsers: false, and in the container's securityContext: "
                                 "seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}, "
                                 "procMount: Unmasked");
                break;
        case DOCTOR_CONTAINER_OTHER:
                doctor_advise(f,
                              "let the container use it: its system call filter must allow unshare, clone3, "
                              "mount, pivot_root and those above");
                break;
        case DOCTOR_CONTAINER_NONE:
                if (d->facts.unit != NULL || d->facts.user_unit != NULL)
                        doctor_fix_unit(d, f, "RestrictNamespaces=no\\nSystemCallFilter=");
                else
                        doctor_advise(f, "start it without the system call filter that is over this process "
                                         "(Seccomp: 2 in /proc/self/status)");
        }
}

void doctor_check_kernel(const struct doctor *d, struct doctor_finding *f)
{
        _cleanup_buf_ struct sr_buf absent = {0};
        const struct doctor_facts *facts = &d->facts;
        const char *release = facts->kernel_release != NULL ? facts->kernel_release : "of unknown version";
        bool is_old = false;

        for (unsigned i = 0; i < SR_HOST_CALL_COUNT; i++) {
                if (d->trial.calls[i] == 0)
                        continue;
                sr_buf_printf(&absent, "%s%s", absent.len > 0 ? ", " : "", sr_host_call_name(i));
                // Where the version should have it, somebody forbids it, whatever the error.
                if (is_older(facts, 5, sr_host_call_since(i)))
                        is_old = true;
        }
        if (absent.len == 0) {
                doctor_found(f, DOCTOR_OK, "Linux %s has all that sandboxes are made with%s", release,
                             is_older(facts, 5, 19) ? "; before 5.19 it does not tell how much memory a run "
                                                      "used at most, so that is sampled"
                                                    : "");
        } else if (is_old) {
                doctor_found(f, DOCTOR_ERROR,
                             "Linux %s is older than %d.%d, the oldest that sandboxes work on; it lacks %s",
                             release, OLDEST_MAJOR, OLDEST_MINOR, absent.data);
                fix_kernel(d, f);
        } else {
                doctor_found(f, DOCTOR_ERROR, "Linux %s, but a system call filter forbids %s here", release,
                             absent.data);
                fix_filter(d, f);
        }
}

// The command that writes the AppArmor profile under which our programs may make user namespaces.
static void fix_apparmor(const struct doctor *d, struct doctor_finding *f)
{
        const char *sudo = doctor_sudo(d), *file = "/etc/apparmor.d/sandbox-runner";

        if (d->facts.has_apparmor_profile)
                doctor_fix(f, "%sapparmor_parser -r %s   # it must name %s", sudo, file,
                           d->facts.programs != NULL ? d->facts.programs : "the programs");
        else
                doctor_fix(f,
                           "printf '%%s\\n' 'abi <abi/4.0>,' 'include <tunables/global>' "
                           "'profile sandbox-runner \"%s\" flags=(unconfined) {' '  userns,' '}' | "
                           "%stee %s && %sapparmor_parser -r %s",
                           d->facts.programs != NULL ? d->facts.programs : "/PATH/OF/sandbox-runner", sudo,
                           file, sudo, file);
        doctor_fix_sysctl(d, f, "kernel.apparmor_restrict_unprivileged_userns", "0");
}

// Whether AppArmor is behind a failure: either it refuses the namespace, or it lets it be made and takes all
// capabilities in it away by this label.
static bool is_apparmor(const struct doctor *d)
{
        return strcmp(d->trial.label, "unprivileged_userns") == 0 ||
               (d->facts.apparmor_restriction == 1 && d->facts.uid != 0 &&
                (d->trial.error == EPERM || d->trial.error == EACCES));
}

// A profile for this very program or container, which does not allow what is needed.
static bool is_confined(const struct doctor *d)
{
        return d->trial.label[0] != '\0' && strcmp(d->trial.label, "unconfined") != 0 &&
               (d->trial.error == EPERM || d->trial.error == EACCES);
}

static void explain_confined(const struct doctor *d, struct doctor_finding *f, const char *what)
{
        doctor_found(f, DOCTOR_ERROR, "%s: %s: AppArmor's profile %s is over this process", what,
                     strerror(d->trial.error), d->trial.label);
        if (d->facts.container == DOCTOR_CONTAINER_PODMAN)
                doctor_fix(f, "podman run --security-opt apparmor=unconfined …");
        else if (d->facts.container == DOCTOR_CONTAINER_KUBERNETES)
                doctor_advise(f, "in the container's securityContext: appArmorProfile: {type: Unconfined}");
        else if (d->facts.container != DOCTOR_CONTAINER_NONE)
                doctor_fix(f, "docker run --security-opt apparmor=unconfined …");
        else
                doctor_advise(f, "add to that profile in /etc/apparmor.d: userns, mount, umount, pivot_root, "
                                 "capability, and load it with apparmor_parser -r");
}

static void explain_limit(const struct doctor *d, struct doctor_finding *f, const char *what,
                          enum doctor_namespace kind)
{
        _cleanup_free_ char *name = sr_asprintf("user.max_%s_namespaces", doctor_namespace_name(kind));

        if (d->facts.max_namespaces[kind] == 0) {
                doctor_found(f, DOCTOR_ERROR, "%s: %s is 0", what, name);
                doctor_fix_sysctl(d, f, name, "15000");
        } else {
                doctor_found(f, DOCTOR_ERROR,
                             "%s: all that this user, or one above, may have (%s) are in use, or they are "
                             "nested too deep",
                             what, name);
                doctor_fix_sysctl(d, f, name, "100000");
        }
}

// Says what is behind a step that failed; `kind` is the namespace it was about.
static void explain(const struct doctor *d, struct doctor_finding *f, const char *what,
                    enum doctor_namespace kind)
{
        const struct doctor_facts *facts = &d->facts;
        int error = d->trial.error;

        if (is_apparmor(d)) {
                doctor_found(f, DOCTOR_ERROR,
                             "%s: AppArmor lets only programs with a profile for it use user namespaces "
                             "(kernel.apparmor_restrict_unprivileged_userns is 1)",
                             what);
                fix_apparmor(d, f);
        } else if (is_confined(d)) {
                explain_confined(d, f, what);
        } else if (facts->max_namespaces[kind] == 0 || error == ENOSPC || error == EUSERS) {
                explain_limit(d, f, what, kind);
        } else if (facts->unprivileged_userns_clone == 0 && facts->uid != 0) {
                doctor_found(f, DOCTOR_ERROR, "%s: kernel.unprivileged_userns_clone is 0", what);
                doctor_fix_sysctl(d, f, "kernel.unprivileged_userns_clone", "1");
        } else if (error == EINVAL || error == ENOSYS) {
                doctor_found(f, DOCTOR_ERROR, "%s: this kernel was built without them", what);
                doctor_advise(f, "boot a kernel built with CONFIG_NAMESPACES, CONFIG_USER_NS, CONFIG_PID_NS, "
                                 "CONFIG_NET_NS, CONFIG_IPC_NS, CONFIG_UTS_NS and CONFIG_CGROUPS");
        } else if (facts->filtered) {
                doctor_found(f, DOCTOR_ERROR, "%s: %s: a system call filter is over this process%s", what,
                             strerror(error),
                             facts->container != DOCTOR_CONTAINER_NONE ? ", the container's"
                             : facts->unit != NULL || facts->user_unit != NULL
                                     ? ", the service's (RestrictNamespaces= or SystemCallFilter=)"
                                     : "");
                fix_filter(d, f);
        } else if (facts->in_chroot && kind == DOCTOR_NS_USER && error == EPERM) {
                doctor_found(f, DOCTOR_ERROR, "%s: the kernel does not allow it in a chroot", what);
                doctor_advise(f, "enter it with another tool than chroot: systemd-nspawn, or a container");
        } else {
                doctor_found(f, DOCTOR_ERROR, "%s: %s", what, strerror(error));
                doctor_advise(f, facts->container != DOCTOR_CONTAINER_NONE
                                         ? "let the container make namespaces and mounts (docker run "
                                           "--security-opt seccomp=unconfined --security-opt "
                                           "apparmor=unconfined …)"
                                         : "look into the kernel's log for the security module that refuses "
                                           "it (journalctl -k), and allow it there");
        }
}

void doctor_check_user_namespaces(const struct doctor *d, struct doctor_finding *f)
{
        switch (d->trial.failed) {
        case SR_HOST_FORK:
                doctor_found(f, DOCTOR_ERROR, "no process could be started to try: %s",
                             strerror(d->trial.error));
                doctor_fix(f, "ulimit -u unlimited");
                doctor_advise(f, "end some of this user's processes");
                break;
        case SR_HOST_USER_NAMESPACE:
                if (!d->facts.has_user_namespaces && d->trial.error == EINVAL) {
                        doctor_found(f, DOCTOR_ERROR, "this kernel was built without them");
                        doctor_advise(f, "boot a kernel built with CONFIG_USER_NS=y");
                } else {
                        explain(d, f, "cannot be made", DOCTOR_NS_USER);
                }
                break;
        case SR_HOST_ID_MAP:
                explain(d, f, "can be made, but no id can be mapped in them", DOCTOR_NS_USER);
                break;
        default:
                doctor_found(f, DOCTOR_OK, "can be made, with an id mapped");
        }
}

// A step that comes after one that failed was not tried.
static bool not_tried(const struct doctor *d, enum sr_host_step step, struct doctor_finding *f)
{
        if (d->trial.failed >= step)
                return false;
        doctor_found(f, DOCTOR_ERROR, "not tried, because an earlier check failed");
        return true;
}

void doctor_check_namespaces(const struct doctor *d, struct doctor_finding *f)
{
        if (not_tried(d, SR_HOST_NAMESPACES, f))
                return;
        if (d->trial.failed == SR_HOST_NAMESPACES) {
                _cleanup_free_ char *what =
                        sr_asprintf("no %s namespace can be made", doctor_namespace_name(d->trial.refused));

                explain(d, f, what, d->trial.refused);
        } else if (d->trial.failed == SR_HOST_MOUNT) {
                explain(d, f, "they can be made, but nothing can be mounted in them", DOCTOR_NS_MOUNT);
        } else {
                doctor_found(f, DOCTOR_OK, "mount, pid, network, ipc, uts and cgroup namespaces can be made");
        }
}

static void fix_proc(const struct doctor *d, struct doctor_finding *f)
{
        switch (d->facts.container) {
        case DOCTOR_CONTAINER_DOCKER:
                doctor_fix(f, "docker run --security-opt systempaths=unconfined …");
                break;
        case DOCTOR_CONTAINER_PODMAN:
                doctor_fix(f, "podman run --security-opt unmask=ALL …");
                break;
        case DOCTOR_CONTAINER_KUBERNETES:
                doctor_advise(f, "in the pod: hostUsers: false, and in the container's securityContext: "
                                 "procMount: Unmasked");
                break;
        default:
                if (d->facts.container == DOCTOR_CONTAINER_NONE &&
                    (d->facts.unit != NULL || d->facts.user_unit != NULL)) {
                        doctor_fix_unit(d, f,
                                        "ProtectKernelTunables=no\\nProtectKernelLogs=no\\nProcSubset=all");
                        break;
                }
                doctor_fix(f, "docker run --security-opt systempaths=unconfined …");
                doctor_fix(f, "podman run --security-opt unmask=ALL …");
        }
}

void doctor_check_proc(const struct doctor *d, struct doctor_finding *f)
{
        _cleanup_buf_ struct sr_buf covered = {0};

        if (not_tried(d, SR_HOST_PROC, f))
                return;
        if (d->trial.failed != SR_HOST_PROC) {
                doctor_found(f, DOCTOR_OK, "a fresh one can be mounted");
                return;
        }
        if (is_apparmor(d) || (is_confined(d) && d->trial.error == EACCES)) {
                explain(d, f, "a fresh one cannot be mounted", DOCTOR_NS_MOUNT);
                return;
        }
        for (size_t i = 0; d->facts.covered != NULL && d->facts.covered[i] != NULL; i++)
                sr_buf_printf(&covered, "%s%s", i > 0 ? ", " : " (", d->facts.covered[i]);
        doctor_found(f, DOCTOR_ERROR,
                     "a fresh one cannot be mounted: %s: the kernel allows it only where one that is whole "
                     "can be seen%s%s%s",
                     strerror(d->trial.error),
                     covered.len > 0           ? ", and here parts of it are covered, as containers do it"
                     : d->facts.proc_read_only ? ", and the one here is read-only"
                                               : "",
                     covered.len > 0 ? covered.data : "", covered.len > 0 ? ")" : "");
        if (covered.len == 0 && !d->facts.proc_read_only)
                doctor_fix(f, "%smount -t proc proc /proc", doctor_sudo(d));
        else
                fix_proc(d, f);
}

void doctor_check_seccomp(const struct doctor *d, struct doctor_finding *f)
{
        if (d->trial.seccomp == 0) {
                doctor_found(f, DOCTOR_OK, "system calls can be filtered");
                return;
        }
        doctor_found(f, DOCTOR_ERROR, "this kernel cannot filter system calls: %s",
                     strerror(d->trial.seccomp));
        doctor_advise(f, "boot a kernel built with CONFIG_SECCOMP_FILTER=y");
}

void doctor_check_landlock(const struct doctor *d, struct doctor_finding *f)
{
        if (d->trial.landlock > 0)
                doctor_found(f, DOCTOR_OK, "version %ld", d->trial.landlock);
        else
                doctor_found(f, DOCTOR_OK, "this kernel has none; sandboxes do without this second wall");
}
