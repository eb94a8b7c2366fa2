// A record as everybody shows it.

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "history/history.h"

// Objects in the object, and some room.
#define DEPTH 8

char *sr_history_record_reason(const struct sr_history_record *record)
{
        _cleanup_json_ cJSON *facts = NULL;
        const cJSON *reason;
        size_t length;

        if (record->facts == NULL ||
            sr_json_parse(record->facts, strlen(record->facts), DEPTH, &facts, NULL) < 0)
                return NULL;
        reason = sr_json_member(facts, "reason");
        return cJSON_IsString(reason) ? sr_json_string_value(reason, &length) : NULL;
}

void sr_history_record_write(const struct sr_history_record *record, enum sr_history_extra extra,
                             struct sr_json_writer *w)
{
        _cleanup_free_ char *timestamp = sr_clock_format_iso(record->timestamp_us);

        sr_json_open_object(w, NULL);
        sr_json_integer(w, "id", record->id);
        sr_json_string(w, "timestamp", timestamp);
        sr_json_string(w, "language", record->language);
        sr_json_string_n(w, "code_snippet", record->code, record->code_length);
        sr_json_string(w, "status", record->status);
        if (record->has_exit_code)
                sr_json_integer(w, "exit_code", record->exit_code);
        else
                sr_json_null(w, "exit_code");
        sr_json_number(w, "duration_ms", record->duration_ms, 2);
        sr_json_integer(w, "stdout_size", record->stdout_size);
        sr_json_integer(w, "stderr_size", record->stderr_size);
        if (extra == SR_HISTORY_REASON) {
                _cleanup_free_ char *reason = sr_history_record_reason(record);

                if (reason != NULL)
                        sr_json_string(w, "reason", reason);
        }
        // An object for certain: reading lets nothing else pass.
        if (extra == SR_HISTORY_FACTS && record->facts != NULL)
                sr_json_raw(w, "facts", record->facts);
        else if (extra == SR_HISTORY_FACTS)
                sr_json_null(w, "facts");
        sr_json_close_object(w);
}
