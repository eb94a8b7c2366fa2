// A whole session: each line of the input is one incoming message. Every message that was promised an answer
// gets one, and every answer is one line of valid JSON.

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/fake_runner.h"

#include "base/json.h"
#include "mcp/server.h"
#include "mcp/tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t answered;

static void require(bool condition)
{
        if (!condition)
                abort();
}

static void take(void *context, const char *bytes, size_t length)
{
        _cleanup_json_ cJSON *answer = NULL;

        (void)context;
        answered++;
        if (bytes == NULL)
                return;
        require(memchr(bytes, '\n', length) == NULL);
        require(sr_json_parse(bytes, length, 512, &answer, NULL) == 0);
        require(cJSON_IsArray(answer) || sr_json_member(answer, "id") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct sr_config config = {
                .default_timeout_s = 10, .max_timeout_s = 30, .max_code_bytes = 51200};
        struct sr_runner *runner = fake_runner_reset();
        struct sr_mcp_sink sink = {.send = take};
        size_t promised = 0;

        // No thread: a run is over before it was begun.
        runner->only_inline = true;
        runner->history_count = 2;

        _cleanup_tools_ struct sr_mcp_tools *tools = sr_mcp_tools_new(&config, runner);
        struct sr_mcp_session *session = sr_mcp_session_new(sr_mcp_tools_set(tools), 4);

        answered = 0;
        while (size > 0) {
                const uint8_t *end = memchr(data, '\n', size);
                size_t length = end != NULL ? (size_t)(end - data) : size;

                // A copy of its own, so that a byte read past it is seen.
                _cleanup_free_ char *line = malloc(length > 0 ? length : 1);

                require(line != NULL);
                memcpy(line, data, length);
                promised += sr_mcp_session_receive(session, line, length, &sink);
                data += length + (end != NULL);
                size -= length + (end != NULL);
        }
        // The history is listed on a thread of its own.
        while (sr_mcp_session_calls(session) > 0)
                sched_yield();
        sr_mcp_session_free(session);
        require(answered == promised);
        fake_runner_reset();
        return 0;
}
