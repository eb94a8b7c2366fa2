#include "base/size.h"

#include <stddef.h>

#include "base/alloc.h"

static const struct {
        unsigned shift;
        const char *name;
} units[] = {{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}};

static char *in_bytes(uint64_t bytes)
{
        return sr_asprintf("%llu byte%s", (unsigned long long)bytes, bytes == 1 ? "" : "s");
}

char *sr_size_exact(uint64_t bytes)
{
        for (size_t i = 0; bytes > 0 && i < sizeof(units) / sizeof(units[0]); i++)
                if (bytes % (UINT64_C(1) << units[i].shift) == 0)
                        return sr_asprintf("%llu %s", (unsigned long long)(bytes >> units[i].shift),
                                           units[i].name);
        return in_bytes(bytes);
}

char *sr_size_rounded(uint64_t bytes)
{
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
                double value = (double)bytes / (double)(UINT64_C(1) << units[i].shift);

                if (value >= 1)
                        return sr_asprintf("%.*f %s", value < 99.95 ? 1 : 0, value, units[i].name);
        }
        return in_bytes(bytes);
}
