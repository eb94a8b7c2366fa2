// Every bound on what an image may ask of this machine. An image comes from strangers: without these, a few
// kilobytes of it could fill the disk or the memory.
#pragma once

#define SR_IMAGE_MIB (1024ull * 1024)
#define SR_IMAGE_GIB (1024ull * SR_IMAGE_MIB)

// An index, manifest or configuration. Registries refuse manifests over 4 MiB (distribution specification,
// "Pushing Manifests").
#define SR_IMAGE_MAX_JSON_BYTES (4 * SR_IMAGE_MIB)
// The documents of the OCI image specification nest 5 deep; labels and annotations are flat.
#define SR_IMAGE_MAX_JSON_DEPTH 32
// An index of indexes is legal and rare; more levels are a loop in disguise.
#define SR_IMAGE_MAX_INDEX_DEPTH 4
// Container engines stop at 127 layers.
#define SR_IMAGE_MAX_LAYERS 512
// Environment and labels together. The kernel takes no single string over 128 KiB, and they are read by
// every run.
#define SR_IMAGE_MAX_SETTINGS_BYTES (1 * SR_IMAGE_MIB)
// A reference file holds those, with at most six bytes for one in JSON.
#define SR_IMAGE_MAX_REF_FILE_BYTES (8 * SR_IMAGE_MIB)
// A reference is a file name in the store: NAME_MAX of Linux is 255, less ".json".
#define SR_IMAGE_MAX_REFERENCE_LENGTH 250

// A layer as it is kept and sent. The largest public images (machine learning) have layers of some 6 GiB.
#define SR_IMAGE_MAX_BLOB_BYTES (16 * SR_IMAGE_GIB)
// The uncompressed layers of an image together, and the files they make (sparse files count in full).
#define SR_IMAGE_MAX_TREE_BYTES (64 * SR_IMAGE_GIB)
// Entries of all layers together: a full desktop distribution has under a million files.
#define SR_IMAGE_MAX_TREE_ENTRIES 2000000ull
// Names between slashes in one path. Linux hands programs paths of 4,096 bytes, so that deeper ones cannot be
// used as a whole; some test suites ship paths that come close.
#define SR_IMAGE_MAX_PATH_DEPTH 4096
// Uncompressed bytes for one compressed byte, once a layer is past the free allowance. DEFLATE reaches 1032
// on zeros, so real layers that begin with a large empty file pass, and a zstd bomb (over 10,000) does not.
#define SR_IMAGE_MAX_RATIO        1100
#define SR_IMAGE_RATIO_FREE_BYTES (64 * SR_IMAGE_MIB)

// Files of /etc that are read to add our user (a site with 10,000 users has under 1 MiB).
#define SR_IMAGE_MAX_ETC_FILE_BYTES (4 * SR_IMAGE_MIB)
// How long rm and gc wait for runs and imports to leave the store.
#define SR_IMAGE_LOCK_WAIT_MS 5000
