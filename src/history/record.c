// A record as everybody shows it.

#include "base/alloc.h"
#include "base/clock.h"
#include "history/history.h"

void sr_history_record_write(const struct sr_history_record *record, bool with_facts,
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
        // An object for certain: reading lets nothing else pass.
        if (with_facts && record->facts != NULL)
                sr_json_raw(w, "facts", record->facts);
        else if (with_facts)
                sr_json_null(w, "facts");
        sr_json_close_object(w);
}
