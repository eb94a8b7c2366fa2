// Inside src/run only: what a cancel handle looks like.
#pragma once

#include "run/run.h"

struct sr_run_cancel {
        int event; // an eventfd, readable for ever once fired
};
