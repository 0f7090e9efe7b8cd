"""Code for Vulkan: PrimFuncs in, SPIR-V shaders out."""
