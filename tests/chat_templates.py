"""Chat templates in the manner of well-known models, for tests: each has what makes its family difficult."""

CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
    "Hugging Face<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA_2 = (
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0].content %}"
    "{% else %}{% set rest = messages %}{% set system = 'You are a helpful, respectful and honest assistant. You are "
    "an AI. If a question makes no sense, say so.' %}{% endif %}"
    "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 %}{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + m.content %}"
    "{% else %}{% set content = m.content %}{% endif %}"
    "{% if m.role == 'user' %}<s>[INST] {{ content.strip() }} [/INST]{% else %} {{ content.strip() }} </s>{% endif %}"
    "{% endfor %}"
)
LLAMA_3 = (
    "<|begin_of_text|>{% if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
    "<|start_header_id|>system<|end_header_id|>\n\n{% if tools %}Environment: ipython\n{% endif %}"
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n{{ system }}"
    "{% for tool in tools or [] %}{{ tool | tojson(indent=4) }}\n\n{% endfor %}<|eot_id|>"
    "{% for m in messages %}{% if m.tool_calls %}<|start_header_id|>assistant<|end_header_id|>\n\n"
    "{% set call = m.tool_calls[0].function %}"
    '{"name": "{{ call.name }}", "parameters": {{ call.arguments | tojson }}}<|eot_id|>'
    "{% elif m.role == 'tool' %}<|start_header_id|>ipython<|end_header_id|>\n\n{{ m.content | tojson }}<|eot_id|>"
    "{% else %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% elif m.role == 'assistant' %}{{ m.content }}{{ eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
MISTRAL_SYSTEM = (  # the system message is written before the last message of the user
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set system = messages[0].content %}"
    "{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}"
    "{% for m in loop_messages %}{% if m.role == 'user' %}[INST]{% if loop.last and system is defined %}"
    " {{ system }}\n\n{{ m.content }}{% else %} {{ m.content }}{% endif %}[/INST]"
    "{% elif m.role == 'tool' %}[TOOL_RESULTS] {\"content\": {{ m.content | string }}}[/TOOL_RESULTS]"
    "{% elif m.tool_calls %}[TOOL_CALLS] [{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}]</s>"
    "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
PHI_3 = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
ZEPHYR = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>\n{{ m.content + eos_token }}"
    "{% elif m.role == 'system' %}<|system|>\n{{ m.content + eos_token }}"
    "{% else %}<|assistant|>\n{{ m.content + eos_token }}{% endif %}"
    "{% if loop.last and add_generation_prompt %}<|assistant|>\n{% endif %}{% endfor %}"
)
VICUNA = (
    "{% if messages[0].role == 'system' %}{{ messages[0].content.strip() }} {% else %}A chat between a curious user "
    "and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's "
    "questions. {% endif %}{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content.strip() }} "
    "{% elif m.role == 'assistant' %}ASSISTANT: {{ m.content.strip() }}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
COMMAND_R = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set system = messages[0].content %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = 'You are Command-R, a brilliant AI assistant that user "
    "questions are answered by.' %}{% endif %}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{ system }}<|END_OF_TURN_TOKEN|>"
    "{% for m in messages %}{% set content = m.content %}{% if m.role == 'user' %}"
    "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{ content.strip() }}<|END_OF_TURN_TOKEN|>{% else %}"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{{ content.strip() }}<|END_OF_TURN_TOKEN|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"
)
DEEPSEEK_R1 = (  # drops the reasoning of earlier answers
    "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
    "{% set ns.system = m.content %}{% endif %}{% endfor %}{{ bos_token }}{{ ns.system }}"
    "{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}{% elif m.role == 'assistant' %}"
    "{% set content = m.content %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}"
    "{% endif %}<｜Assistant｜>{{ content }}<｜end▁of▁sentence｜>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜Assistant｜><think>\n{% endif %}"
)
QWEN_3 = (  # asks how messages begin and end, keeps reasoning only after the last question, and knows tools
    "{% if tools %}<|im_start|>system\n{% if messages[0].role == 'system' %}{{ messages[0].content }}\n\n{% endif %}"
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n<tools>"
    "{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n</tools><|im_end|>\n"
    "{% elif messages[0].role == 'system' %}<|im_start|>system\n{{ messages[0].content }}<|im_end|>\n{% endif %}"
    "{% set ns = namespace(search=true, last=messages | length - 1) %}"
    "{% for m in messages[::-1] %}{% set index = (messages | length - 1) - loop.index0 %}"
    "{% if ns.search and m.role == 'user' and not (m.content.startswith('<tool_response>') and "
    "m.content.endswith('</tool_response>')) %}{% set ns.search = false %}{% set ns.last = index %}{% endif %}"
    "{% endfor %}{% for m in messages %}{% if m.role == 'user' or (m.role == 'system' and not loop.first) %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% elif m.role == 'assistant' %}"
    "{% set content = m.content %}{% set reasoning = '' %}{% if '</think>' in content %}"
    "{% set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
    "{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}<|im_start|>assistant\n"
    "{% if loop.index0 > ns.last %}<think>\n{{ reasoning.strip('\\n') }}\n</think>\n\n{{ content.lstrip('\\n') }}"
    "{% else %}{{ content }}{% endif %}{% for call in m.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}<|im_end|>\n{% elif m.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ m.content }}\n"
    "</tool_response><|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHOUTING = "{% for m in messages %}[{{ m.role }}] {{ m.content | upper | trim }}\n{% endfor %}[assistant]\n"
ESCAPED = "{% for m in messages %}{{ {'role': m.role, 'content': m.content} | tojson }}\n{% endfor %}assistant:"

ALL = {
    "ChatML": CHATML, "Llama 2": LLAMA_2, "Llama 3": LLAMA_3, "Mistral": MISTRAL, "Mistral with system": MISTRAL_SYSTEM,
    "Gemma": GEMMA, "Phi-3": PHI_3, "Zephyr": ZEPHYR, "Vicuna": VICUNA, "Command-R": COMMAND_R,
    "DeepSeek-R1": DEEPSEEK_R1, "Qwen 3": QWEN_3, "upper case": SHOUTING, "JSON": ESCAPED,
}  # fmt: skip
WITHOUT_SYSTEM = {"Mistral", "Gemma"}
WITH_TOOLS = {"Llama 3", "Qwen 3"}
