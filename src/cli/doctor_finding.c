// What a check of `doctor` says, and the commands that more than one of them recommends.

#include <stdarg.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "cli/doctor.h"

void doctor_found(struct doctor_finding *f, enum doctor_state state, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        free(f->found);
        f->state = state;
        f->found = sr_vasprintf(format, arguments);
        va_end(arguments);
}

void doctor_fix(struct doctor_finding *f, const char *format, ...)
{
        _cleanup_free_ char *before = sr_steal(f->fix), *way = NULL;
        va_list arguments;

        va_start(arguments, format);
        way = sr_vasprintf(format, arguments);
        va_end(arguments);
        f->fix = before != NULL ? sr_asprintf("%s\n%s", before, way) : sr_steal(way);
}

void doctor_finding_clear(struct doctor_finding *f)
{
        sr_freep(&f->found);
        sr_freep(&f->fix);
}

const char *doctor_sudo(const struct doctor *d)
{
        return d->facts.uid == 0 ? "" : "sudo ";
}

void doctor_fix_sysctl(const struct doctor *d, struct doctor_finding *f, const char *name, const char *value)
{
        const char *sudo = doctor_sudo(d);

        doctor_fix(f, "%secho %s=%s | %stee -a /etc/sysctl.d/60-sandbox-runner.conf && %ssysctl --system",
                   d->facts.container != DOCTOR_CONTAINER_NONE ? "on the container's host: " : "", name,
                   value, sudo, sudo);
}

void doctor_fix_name(const struct doctor *d, struct doctor_finding *f, const char *before)
{
        const char *sudo = doctor_sudo(d);

        // The group must be there, and newuidmap wants the one that this process has.
        doctor_fix(f,
                   "%s{ getent group %u || %sgroupadd --gid %u snippets; } && %suseradd --uid %u --gid %u "
                   "--no-create-home snippets",
                   before, (unsigned)d->facts.gid, sudo, (unsigned)d->facts.gid, sudo, (unsigned)d->facts.uid,
                   (unsigned)d->facts.gid);
}

void doctor_fix_unit(const struct doctor *d, struct doctor_finding *f, const char *setting)
{
        const char *sudo = doctor_sudo(d);

        if (d->facts.user_unit != NULL)
                doctor_fix(f,
                           "mkdir -p ~/.config/systemd/user/%s.d && printf '[Service]\\n%s\\n' "
                           ">>~/.config/systemd/user/%s.d/sandbox-runner.conf && systemctl --user "
                           "daemon-reload && systemctl --user restart %s",
                           d->facts.user_unit, setting, d->facts.user_unit, d->facts.user_unit);
        else
                doctor_fix(f,
                           "%smkdir -p /etc/systemd/system/%s.d && printf '[Service]\\n%s\\n' | %stee -a "
                           "/etc/systemd/system/%s.d/sandbox-runner.conf && %ssystemctl daemon-reload && "
                           "%ssystemctl restart %s",
                           sudo, d->facts.unit, setting, sudo, d->facts.unit, sudo, sudo, d->facts.unit);
}
