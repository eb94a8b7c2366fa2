// The entry points of the three programs; each takes main's arguments and gives the exit status.
#pragma once

int sr_cli_main(int argc, char **argv);       // src/cli/main.c
int sr_cli_image_main(int argc, char **argv); // src/cli/image/main.c
int sr_spawner_main(int argc, char **argv);   // src/sandbox/spawner/main.c
