#include "main/main.h"

int main(int argc, char **argv)
{
        return sr_spawner_main(argc, argv);
}
