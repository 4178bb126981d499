/* The header alone, and twice. */

#include "koshi.h"
#include "koshi.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    char text[32];
    unsigned number = KOSHI_VERSION_MAJOR * 1000000u + KOSHI_VERSION_MINOR * 1000u + KOSHI_VERSION_PATCH;
    if (koshi_version() != number) {
        fprintf(stderr, "header %u, library %u\n", number, (unsigned)koshi_version());
        return 1;
    }
    snprintf(text, sizeof text, "%d.%d.%d", KOSHI_VERSION_MAJOR, KOSHI_VERSION_MINOR, KOSHI_VERSION_PATCH);
    if (strcmp(text, koshi_version_string()) != 0) {
        fprintf(stderr, "header %s, library %s\n", text, koshi_version_string());
        return 1;
    }
    return 0;
}
