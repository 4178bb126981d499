/* Stands in for libcuda: two devices, or what the defines leave out or break. */

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef COUNT
#define COUNT 2
#endif
#ifndef VERSION
#define VERSION 12080
#endif

int cuInit(unsigned flags)
{
    return flags == 0 ? INIT : 1;
}

int cuDriverGetVersion(int *version)
{
    *version = VERSION;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = COUNT;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = 40 + ordinal;
    return ordinal < 0 || ordinal >= COUNT;
}

int cuDeviceGetName(char *name, int len, int device)
{
    snprintf(name, (size_t)len, "Fake %d", device);
    return 0;
}

#ifndef WITHOUT_MEMORY
int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = (size_t)device << 30;
    return 0;
}
#endif

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 16 ? 7 : attribute == 75 ? 9 : attribute == 76 ? 1 : -1;
    return *value < 0;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
    return *name == NULL;
}

/* What is looked up before anything is called, and never called here. */
#define UNUSED(name) \
    int name(void);  \
    int name(void)   \
    {                \
        return 999;  \
    }
UNUSED(cuDevicePrimaryCtxRetain)
UNUSED(cuDevicePrimaryCtxRelease_v2)
UNUSED(cuCtxGetCurrent)
UNUSED(cuCtxSetCurrent)
UNUSED(cuMemGetInfo_v2)
UNUSED(cuMemAlloc_v2)
UNUSED(cuMemFree_v2)
UNUSED(cuPointerGetAttribute)
UNUSED(cuMemHostAlloc)
UNUSED(cuMemFreeHost)
UNUSED(cuMemcpyHtoDAsync_v2)
UNUSED(cuMemcpyDtoHAsync_v2)
UNUSED(cuMemsetD8Async)
UNUSED(cuStreamCreate)
UNUSED(cuStreamDestroy_v2)
UNUSED(cuStreamSynchronize)
UNUSED(cuStreamWaitEvent)
UNUSED(cuEventCreate)
UNUSED(cuEventDestroy_v2)
UNUSED(cuEventRecord)
UNUSED(cuEventElapsedTime)
UNUSED(cuModuleLoadData)
UNUSED(cuModuleUnload)
UNUSED(cuModuleGetFunction)
UNUSED(cuLaunchKernel)
