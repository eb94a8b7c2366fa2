// Layers are unpacked by this same program, confined: see run/helper.h.
#pragma once

#include "config/config.h"
#include "image/unpack.h"

struct sr_image_confinement {
        struct sr_image_confine confine; // what the image module is given
        const struct sr_config *config;
        struct sr_helper_host *host; // started at the first layer
};

// config must outlive it. Starts nothing yet.
void sr_image_confinement_prepare(struct sr_image_confinement *confinement, const struct sr_config *config);
void sr_image_confinement_end(struct sr_image_confinement *confinement);
