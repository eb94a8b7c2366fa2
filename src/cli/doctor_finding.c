// What a check of `doctor` says, and the commands that more than one of them recommends.

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
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

__attribute__((format(printf, 3, 0))) static void add_way(struct doctor_finding *f, bool words,
                                                          const char *format, va_list arguments)
{
        _cleanup_free_ char *before = sr_steal(f->fix), *way = sr_vasprintf(format, arguments);
        unsigned lines = before != NULL;

        for (const char *at = before; at != NULL && (at = strchr(at, '\n')) != NULL; at++)
                lines++;
        if (words)
                f->words |= 1u << lines;
        f->fix = before != NULL ? sr_asprintf("%s\n%s", before, way) : sr_steal(way);
}

void doctor_fix(struct doctor_finding *f, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        add_way(f, false, format, arguments);
        va_end(arguments);
}

void doctor_advise(struct doctor_finding *f, const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        add_way(f, true, format, arguments);
        va_end(arguments);
}

char *doctor_quote(const char *text)
{
        struct sr_buf word = {0};

        if (*text != '\0' && *text != '-' && *text != '~' &&
            text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./~-")] ==
                    '\0')
                return sr_strdup(text);
        sr_buf_append_char(&word, '\'');
        for (; *text != '\0'; text++)
                if (*text == '\'')
                        sr_buf_append_text(&word, "'\\''");
                else
                        sr_buf_append_char(&word, *text);
        sr_buf_append_char(&word, '\'');
        return sr_buf_steal(&word, NULL);
}

const char *doctor_program(const struct doctor *d)
{
        return d->program != NULL ? d->program : "sandbox-runner";
}

void doctor_finding_clear(struct doctor_finding *f)
{
        sr_freep(&f->found);
        sr_freep(&f->fix);
        f->words = 0;
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
