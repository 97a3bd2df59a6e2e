select o.id from {{ ref('orders_merged') }} o left anti join {{ ref('customers') }} c on c.id = o.customer_id
