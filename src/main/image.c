#include "main/main.h"

int main(int argc, char **argv)
{
        return sr_cli_image_main(argc, argv);
}
