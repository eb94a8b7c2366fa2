// The least a C program can do: the payload that shows what a launch alone costs.
int main(void)
{
        return 0;
}
