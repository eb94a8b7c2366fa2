// One line per event on stderr. Only the programs' own layers (cli, mcp, http) log; library code returns
// errors instead.
#pragma once

enum sr_log_level { SR_LOG_ERROR, SR_LOG_WARNING, SR_LOG_INFO, SR_LOG_DEBUG };

// Lines above this level are dropped. The default is SR_LOG_WARNING.
void sr_log_set_level(enum sr_log_level level);
__attribute__((format(printf, 2, 3))) void sr_log(enum sr_log_level level, const char *format, ...);
