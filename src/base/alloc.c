#include "base/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void out_of_memory(void)
{
        static const char text[] =
                "sandbox-runner: out of memory; free some or raise the limit of this process\n";

        // Nothing can be done about a failing write here.
        ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
        (void)ignored;
        abort();
}

void *sr_calloc(size_t count, size_t size)
{
        void *memory = calloc(count != 0 ? count : 1, size != 0 ? size : 1);

        if (memory == NULL)
                out_of_memory();
        return memory;
}

void *sr_realloc(void *memory, size_t count, size_t size)
{
        void *grown = reallocarray(memory, count != 0 ? count : 1, size != 0 ? size : 1);

        if (grown == NULL)
                out_of_memory();
        return grown;
}

char *sr_strdup(const char *text)
{
        return sr_memdup0(text, strlen(text));
}

char *sr_memdup0(const void *bytes, size_t length)
{
        if (length == SIZE_MAX)
                out_of_memory();

        char *copy = sr_calloc(length + 1, 1);

        if (length > 0)
                memcpy(copy, bytes, length);
        return copy;
}

char *sr_vasprintf(const char *format, va_list arguments)
{
        char *text = NULL;

        if (vasprintf(&text, format, arguments) < 0)
                out_of_memory();
        return text;
}

char *sr_asprintf(const char *format, ...)
{
        va_list arguments;
        char *text;

        va_start(arguments, format);
        text = sr_vasprintf(format, arguments);
        va_end(arguments);
        return text;
}

size_t sr_strv_length(char *const *array)
{
        size_t length = 0;

        while (array != NULL && array[length] != NULL)
                length++;
        return length;
}

void sr_strv_append(char ***array, char *text)
{
        size_t length = sr_strv_length(*array);

        *array = sr_realloc(*array, length + 2, sizeof(char *));
        (*array)[length] = text;
        (*array)[length + 1] = NULL;
}

char **sr_strv_copy(char *const *array)
{
        size_t length = sr_strv_length(array);
        char **copy = sr_new_array(char *, length + 1);

        for (size_t i = 0; i < length; i++)
                copy[i] = sr_strdup(array[i]);
        return copy;
}

char **sr_strv_free(char **array)
{
        for (size_t i = 0; array != NULL && array[i] != NULL; i++)
                free(array[i]);
        free(array);
        return NULL;
}

void sr_freep(void *pointer)
{
        free(*(void **)pointer);
        *(void **)pointer = NULL;
}

void sr_strv_freep(char ***array)
{
        *array = sr_strv_free(*array);
}
