"""A Vulkan device: memory that the CPU can access, compute pipelines, and one queue.

Everything is synchronous: a launch returns when its kernel has run. Needs the package ``vulkan``
and a driver. Independent of TVM.
"""

from __future__ import annotations

import bisect
import importlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm_nnef.diagnostics import error
from tvm_nnef.support.requirements import installing
from tvm_nnef.vulkan_runtime.opcodes import Capability, Op
from tvm_nnef.vulkan_runtime.shader import Shader

INSTALL = f"{installing('vulkan', 'vulkan')}, and install the driver of your GPU; without a GPU, \
'apt install mesa-vulkan-drivers'"
"""The hint how to install missing requirements."""

_FIRST_INSTRUCTION = 5
"""The words before the first instruction of a SPIR-V module."""

_FEATURES = {
    Capability.Int64: "shaderInt64",
    Capability.Int16: "shaderInt16",
    Capability.Float64: "shaderFloat64",
    Capability.Int8: "shaderInt8",
    Capability.Float16: "shaderFloat16",
    Capability.StorageBuffer8BitAccess: "storageBuffer8BitAccess",
    Capability.StorageBuffer16BitAccess: "storageBuffer16BitAccess",
    Capability.SignedZeroInfNanPreserve: "shaderSignedZeroInfNanPreserveFloat32",
}
"""Vulkan's names of features that a shader may need."""


@dataclass(frozen=True, slots=True)
class _Allocation:
    """Memory at an address of the CPU."""

    address: int
    size: int
    buffer: Any
    memory: Any


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """A kernel that is ready to run, and the descriptors of its arguments."""

    pipeline: Any
    layout: Any
    descriptors: Any
    uniforms: int | None


class Device:
    """The fastest device of the machine, by its kind.

    ``name`` is that of the device. Calls from several threads take turns.
    """

    def __init__(self) -> None:
        """Open the device; raise NnefError if the package, the driver or a device is missing."""
        self._vk = _binding()
        self._turn = threading.RLock()
        self._allocations: dict[int, _Allocation] = {}
        self._addresses: list[int] = []
        self._pipelines: dict[Shader, _Pipeline] = {}
        self._failure: str | None = None
        with self._checked("cannot be used"):
            self._open()

    def _open(self) -> None:
        vk = self._vk
        application = vk.VkApplicationInfo(apiVersion=vk.VK_MAKE_VERSION(1, 2, 0))
        created = vk.VkInstanceCreateInfo(pApplicationInfo=application)
        try:
            self._instance = vk.vkCreateInstance(created, None)
        except vk.VkErrorIncompatibleDriver:
            raise error("no driver for Vulkan is installed on this machine", hint=INSTALL) from None
        devices = vk.vkEnumeratePhysicalDevices(self._instance)
        ranked = sorted(devices, key=self._rank)
        if not ranked or self._rank(ranked[0]) == len(_KINDS):
            raise error("there is no device for Vulkan 1.2 on this machine", hint=INSTALL)
        self._physical = ranked[0]
        properties = vk.vkGetPhysicalDeviceProperties(self._physical)
        self.name = str(properties.deviceName)
        self._present = self._features()
        families = vk.vkGetPhysicalDeviceQueueFamilyProperties(self._physical)
        family = next(
            number
            for number, each in enumerate(families)
            if each.queueFlags & vk.VK_QUEUE_COMPUTE_BIT
        )
        self._device = vk.vkCreateDevice(self._physical, self._device_info(family), None)
        self._queue = vk.vkGetDeviceQueue(self._device, family, 0)
        pool = vk.VkCommandPoolCreateInfo(
            queueFamilyIndex=family, flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
        )
        self._pool = vk.vkCreateCommandPool(self._device, pool, None)
        (self._commands,) = vk.vkAllocateCommandBuffers(
            self._device,
            vk.VkCommandBufferAllocateInfo(
                commandPool=self._pool,
                level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                commandBufferCount=1,
            ),
        )
        self._memory_type = self._host_memory_type()

    def _rank(self, physical: Any) -> int:
        """Return the rank of a device among all, the fastest first; the last one if it is too
        old.
        """
        properties = self._vk.vkGetPhysicalDeviceProperties(physical)
        if properties.apiVersion < self._vk.VK_MAKE_VERSION(1, 2, 0):
            return len(_KINDS)
        kinds = [getattr(self._vk, f"VK_PHYSICAL_DEVICE_TYPE_{kind}") for kind in _KINDS]
        return kinds.index(properties.deviceType)

    def _features(self) -> frozenset[str]:
        """Return Vulkan's names of the features in ``_FEATURES`` that the device has."""
        vk = self._vk
        parts = [
            vk.VkPhysicalDeviceVulkan12Features(),
            vk.VkPhysicalDevice16BitStorageFeatures(),
        ]
        parts[1].pNext = vk.ffi.addressof(parts[0])
        asked = vk.VkPhysicalDeviceFeatures2(pNext=parts[1])
        vk.vkGetPhysicalDeviceFeatures2(self._physical, asked)
        controls = vk.VkPhysicalDeviceVulkan12Properties()
        properties = vk.VkPhysicalDeviceProperties2(pNext=controls)
        vk.vkGetPhysicalDeviceProperties2(self._physical, properties)
        known = [asked.features, *parts, controls]
        return frozenset(
            name for name in _FEATURES.values() if any(getattr(each, name, 0) for each in known)
        )

    def _device_info(self, family: int) -> Any:
        vk = self._vk
        newer, storage, basic = (
            {name: 1 for name in names if name in self._present} for names in _FEATURE_GROUPS
        )
        features = vk.VkPhysicalDeviceFeatures2(
            features=vk.VkPhysicalDeviceFeatures(**basic),
            pNext=vk.VkPhysicalDevice16BitStorageFeatures(
                **storage, pNext=vk.VkPhysicalDeviceVulkan12Features(**newer)
            ),
        )
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=family, pQueuePriorities=[1.0])
        return vk.VkDeviceCreateInfo(pNext=features, pQueueCreateInfos=[queue])

    def _host_memory_type(self) -> int:
        """Return the memory type that the CPU accesses without flushes, preferably a cached one."""
        vk = self._vk
        properties = vk.vkGetPhysicalDeviceMemoryProperties(self._physical)
        needed = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        for wanted in (needed | vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT, needed):
            for number, each in enumerate(properties.memoryTypes):
                if each.propertyFlags & wanted == wanted:
                    return number
        message = f"the device '{self.name}' has no memory that the CPU sees"
        raise error(message, hint="use a TVM with a runtime for Vulkan")

    # Memory

    def allocate(self, size: int) -> int:
        """Return the address of new memory; 0 if there is none, which the next launch reports."""
        with self._turn:
            try:
                allocation = self._allocated(
                    max(16, size), self._vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
                )
            except self._vk.VkError as problem:
                self._failure = f"{size} bytes cannot be allocated: {_described(problem)}"
                return 0
            self._allocations[allocation.address] = allocation
            bisect.insort(self._addresses, allocation.address)
            return allocation.address

    def free(self, address: int) -> bool:
        """Free memory; return whether it was allocated here."""
        vk = self._vk
        with self._turn:
            allocation = self._allocations.pop(address, None)
            if allocation is None:
                return False
            self._addresses.remove(address)
            vk.vkDestroyBuffer(self._device, allocation.buffer, None)
            vk.vkFreeMemory(self._device, allocation.memory, None)
            return True

    def _allocated(self, size: int, usage: int) -> _Allocation:
        vk, device = self._vk, self._device
        sharing = vk.VK_SHARING_MODE_EXCLUSIVE
        created = vk.VkBufferCreateInfo(size=size, usage=usage, sharingMode=sharing)
        buffer = vk.vkCreateBuffer(device, created, None)
        try:
            needs = vk.vkGetBufferMemoryRequirements(device, buffer)
            info = vk.VkMemoryAllocateInfo(
                allocationSize=needs.size, memoryTypeIndex=self._memory_type
            )
            memory = vk.vkAllocateMemory(device, info, None)
        except vk.VkError:
            vk.vkDestroyBuffer(device, buffer, None)
            raise
        vk.vkBindBufferMemory(device, buffer, memory, 0)
        mapped = vk.vkMapMemory(device, memory, 0, needs.size, 0)
        address = int(vk.ffi.cast("uintptr_t", vk.ffi.from_buffer(mapped)))
        return _Allocation(address, size, buffer, memory)

    def _found(self, address: int) -> tuple[_Allocation, int]:
        """Return the memory that contains an address, and the offset in it."""
        number = bisect.bisect_right(self._addresses, address) - 1
        if number >= 0:
            allocation = self._allocations[self._addresses[number]]
            if address < allocation.address + allocation.size:
                return allocation, address - allocation.address
        message = f"out of memory on '{self.name}': {self._failure or 'unknown buffer'}"
        raise error(message, hint="give smaller inputs, or use a device with more memory")

    # Kernels

    def launch(
        self, shader: Shader, buffers: Sequence[int], scalars: bytes, grid: Sequence[int]
    ) -> None:
        """Run a kernel on buffers at addresses.

        ``scalars`` are its other arguments, 8 bytes each. Raises NnefError if the device cannot.
        """
        with self._turn, self._checked(f"cannot run the kernel '{shader.name}'"):
            if shader not in self._pipelines:
                self._check(shader)
                self._pipelines[shader] = self._prepared(shader)
            kernel = self._pipelines[shader]
            self._bind(kernel, buffers)
            self._run(kernel, scalars, grid)

    def _check(self, shader: Shader) -> None:
        """Raise NnefError if the device lacks what a kernel needs."""
        missing = sorted(features_of(shader) - self._present)
        if missing:
            message = f"the device '{self.name}' cannot run the kernel '{shader.name}'"
            raise error(message, hint=f"it lacks {', '.join(missing)}")

    def _prepared(self, shader: Shader) -> _Pipeline:
        vk, device = self._vk, self._device
        types = [vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER] * shader.buffers
        size = 8 * len(shader.scalars)
        if shader.uses_uniform_buffer:
            types.append(vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER)
        bindings = [
            vk.VkDescriptorSetLayoutBinding(
                binding=number,
                descriptorType=each,
                descriptorCount=1,
                stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            )
            for number, each in enumerate(types)
        ]
        set_layout = vk.vkCreateDescriptorSetLayout(
            device, vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings), None
        )
        pushed = vk.VkPushConstantRange(
            stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT, offset=0, size=size
        )
        has_push_constants = size and not shader.uses_uniform_buffer
        layout = vk.vkCreatePipelineLayout(
            device,
            vk.VkPipelineLayoutCreateInfo(
                pSetLayouts=[set_layout],
                pPushConstantRanges=[pushed] if has_push_constants else None,
            ),
            None,
        )
        code = b"".join(word.to_bytes(4, "little") for word in shader.words)
        module = vk.vkCreateShaderModule(
            device, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None
        )
        stage = vk.VkPipelineShaderStageCreateInfo(
            stage=vk.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName=shader.name
        )
        (pipeline,) = vk.vkCreateComputePipelines(
            device, None, 1, [vk.VkComputePipelineCreateInfo(stage=stage, layout=layout)], None
        )
        vk.vkDestroyShaderModule(device, module, None)
        descriptors = self._descriptors(set_layout, types)
        uniforms = None
        if shader.uses_uniform_buffer:
            made = self._allocated(size, vk.VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT)
            uniforms = made.address
            self._write(descriptors, shader.buffers, types[-1], (made.buffer, 0, size))
        return _Pipeline(pipeline, layout, descriptors, uniforms)

    def _descriptors(self, layout: Any, types: Sequence[int]) -> Any:
        vk = self._vk
        sizes = [
            vk.VkDescriptorPoolSize(type=each, descriptorCount=types.count(each))
            for each in dict.fromkeys(types)
        ]
        pool = vk.vkCreateDescriptorPool(
            self._device, vk.VkDescriptorPoolCreateInfo(maxSets=1, pPoolSizes=sizes), None
        )
        asked = vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[layout])
        return vk.vkAllocateDescriptorSets(self._device, asked)[0]

    def _bind(self, kernel: _Pipeline, buffers: Sequence[int]) -> None:
        for number, address in enumerate(buffers):
            found, offset = self._found(address)
            part = (found.buffer, offset, found.size - offset)
            kind = self._vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
            self._write(kernel.descriptors, number, kind, part)

    def _write(self, descriptors: Any, number: int, kind: int, part: tuple[Any, int, int]) -> None:
        vk, (buffer, offset, size) = self._vk, part
        info = vk.VkDescriptorBufferInfo(buffer=buffer, offset=offset, range=size)
        write = vk.VkWriteDescriptorSet(
            dstSet=descriptors,
            dstBinding=number,
            descriptorCount=1,
            descriptorType=kind,
            pBufferInfo=[info],
        )
        vk.vkUpdateDescriptorSets(self._device, 1, [write], 0, None)

    def _run(self, kernel: _Pipeline, scalars: bytes, grid: Sequence[int]) -> None:
        vk, commands = self._vk, self._commands
        compute = vk.VK_PIPELINE_BIND_POINT_COMPUTE
        once = vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
        vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo(flags=once))
        vk.vkCmdBindPipeline(commands, compute, kernel.pipeline)
        sets = [kernel.descriptors]
        vk.vkCmdBindDescriptorSets(commands, compute, kernel.layout, 0, 1, sets, 0, None)
        if kernel.uniforms is not None:
            vk.ffi.memmove(vk.ffi.cast("void *", kernel.uniforms), scalars, len(scalars))
        elif scalars:
            stage = vk.VK_SHADER_STAGE_COMPUTE_BIT
            values = vk.ffi.from_buffer(scalars)
            vk.vkCmdPushConstants(commands, kernel.layout, stage, 0, len(scalars), values)
        vk.vkCmdDispatch(commands, *grid)
        vk.vkEndCommandBuffer(commands)
        vk.vkQueueSubmit(self._queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[commands])], None)
        vk.vkQueueWaitIdle(self._queue)

    def _checked(self, action: str) -> _Checked:
        return _Checked(self._vk, action)


class _Checked:
    """A context that turns errors of Vulkan into NnefError with the name of the failed action."""

    def __init__(self, vk: Any, action: str) -> None:
        self._vk, self._action = vk, action

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        if isinstance(problem, self._vk.VkError):
            raise error(f"Vulkan {self._action}: {_described(problem)}", hint=INSTALL) from None


_KINDS = ("DISCRETE_GPU", "INTEGRATED_GPU", "VIRTUAL_GPU", "CPU", "OTHER")
"""Kinds of devices, the fastest first."""

_FEATURE_GROUPS = (
    ("shaderInt8", "shaderFloat16", "storageBuffer8BitAccess"),
    ("storageBuffer16BitAccess",),
    ("shaderInt64", "shaderInt16", "shaderFloat64"),
)
"""The names of features by the structure that enables them."""


def features_of(shader: Shader) -> set[str]:
    """Return Vulkan's names of the features that a shader needs, by its first instructions."""
    words = shader.words[_FIRST_INSTRUCTION:]
    capabilities = set()
    for number in range(0, len(words), 2):
        if words[number] != 2 << 16 | Op.Capability:
            break
        capabilities.add(words[number + 1])
    return {name for each, name in _FEATURES.items() if each in capabilities}


def _described(problem: Exception) -> str:
    return type(problem).__name__ + (f" {problem}" if str(problem) else "")


def _binding() -> Any:
    try:
        return importlib.import_module("vulkan")
    except ImportError:
        raise error("running on Vulkan needs the package 'vulkan'", hint=INSTALL) from None
    except OSError as problem:
        raise error(f"there is no Vulkan on this machine: {problem}", hint=INSTALL) from None
