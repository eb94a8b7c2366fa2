// Runs a fuzz target over files instead of under libFuzzer, so that every compiler and every test run checks
// the corpus: what once failed must not fail again.

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_BYTES ((size_t)16 * 1024 * 1024)

static int run_directory(const char *path)
{
        DIR *directory = opendir(path);
        struct dirent *entry;
        int count = 0;

        if (directory == NULL) {
                fprintf(stderr, "%s: cannot be opened\n", path);
                return -1;
        }
        while ((entry = readdir(directory)) != NULL) {
                _cleanup_buf_ struct sr_buf input = {0};

                if (entry->d_name[0] == '.')
                        continue;
                if (sr_fd_read_file(dirfd(directory), entry->d_name, MAX_BYTES, &input) < 0) {
                        fprintf(stderr, "%s/%s: cannot be read\n", path, entry->d_name);
                        closedir(directory);
                        return -1;
                }
                printf("%s\n", entry->d_name);
                fflush(stdout);
                LLVMFuzzerTestOneInput((const uint8_t *)input.data, input.len);
                count++;
        }
        closedir(directory);
        return count;
}

int main(int argc, char **argv)
{
        int total = 0;

        for (int i = 1; i < argc; i++) {
                int count = run_directory(argv[i]);

                if (count <= 0) {
                        fprintf(stderr, "%s: nothing was run\n", argv[i]);
                        return 1;
                }
                total += count;
        }
        printf("%d inputs\n", total);
        return total > 0 ? 0 : 1;
}
